#pragma once

#include <string>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/collective.h"
#include "kernels/paged_kv.h"

namespace baton::kernels {

// What every backend demands of a step: sequences partition the tokens, positions follow from the
// contexts, block tables name existing blocks for the whole context, and sampled rows exist.
absl::Status CheckStep(const StepLayout& layout, const PagedKv& kv);

// The host computes in no float16.
absl::Status CheckHostKv(const KvLayout& layout);

// Without padding.
inline StepRows RowsOf(const StepLayout& layout) {
  return {static_cast<int64_t>(layout.tokens.size()),
          static_cast<int64_t>(layout.sample_rows.size())};
}

// Backend::AllReduce over host memory. What went wrong, or "".
std::string SumOverRanks(Collective& collective, Matrix values);

// A fault of the device, as Backend::EndStep reports it.
absl::Status DeviceFault(std::string_view message);

}  // namespace baton::kernels
