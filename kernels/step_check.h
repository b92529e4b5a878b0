#pragma once

#include <string>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/collective.h"
#include "kernels/paged_kv.h"

namespace baton::kernels {

// Checks what every backend demands of a step: its sequences partition the tokens, positions follow
// from the contexts, block tables name existing blocks for each whole context, and the rows to
// sample exist. INTERNAL says what is wrong, which is a bug of whoever made the layout.
absl::Status CheckStep(const StepLayout& layout, const PagedKv& kv);

// Refuses a KV cache that no backend of the host computes with: of float16, or of codes for heads
// of another size than a multiple of KvLayout::kQuantizedDims.
absl::Status CheckHostKv(const KvLayout& layout);

// The rows of a step on a backend that pads nothing.
inline StepRows RowsOf(const StepLayout& layout) {
  return {static_cast<int64_t>(layout.tokens.size()),
          static_cast<int64_t>(layout.sample_rows.size())};
}

// Backend::AllReduce for values in the host's memory. Returns what went wrong, or "".
std::string SumOverRanks(Collective& collective, Matrix values);
// The same for the exchange of Backend::GatherColumns.
std::string GatherOverRanks(Collective& collective, Matrix parts);

// An error with the reason DEVICE_FAULT, as Backend::EndStep reports one: the worker that gets it
// turns unhealthy.
absl::Status DeviceFault(std::string_view message);

}  // namespace baton::kernels
