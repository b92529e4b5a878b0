#pragma once

#include <string>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/collective.h"
#include "kernels/paged_kv.h"

namespace baton::kernels {

// What every host backend demands of a step: sequences partition the tokens, positions follow from
// the contexts, and block tables name existing blocks for the whole context.
absl::Status CheckStep(const StepLayout& layout, const PagedKv& kv);

// Backend::AllReduce over host memory. What went wrong, or "".
std::string SumOverRanks(Collective& collective, Matrix values);

// A fault of the device, as Backend::EndStep reports it.
absl::Status DeviceFault(std::string_view message);

}  // namespace baton::kernels
