#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/model/transformer.h"
#include "kernels/paged_kv.h"

namespace baton {

// Steps of meaningless tokens that run before a worker serves. When the KV cache gets the rest of a
// device's memory, the device has then loaded and taken what it needs.

// The KV blocks of the largest step that `limits` allow.
int32_t LargestStepBlocks(const StepLimits& limits, const kernels::KvLayout& layout);

// Runs the largest step that the transformer's limits allow, over KV blocks of its own.
absl::Status RunLargestStep(Transformer& transformer, const kernels::KvLayout& layout);

// Runs decode steps of every padded size that the backend captures and, for each, of contexts with
// every number of parts that a backend tells apart: up to `max_context` tokens, as far as the
// blocks of `kv` hold them. Each runs twice, because a backend captures the second one. Overwrites
// block 0.
absl::Status RunDecodeSteps(Transformer& transformer, const kernels::PagedKv& kv,
                            int32_t max_context);

// The contexts, in tokens, that RunDecodeSteps takes up to `longest`: of 1, 2, 4, 8, … parts, the
// last of them no shorter than `longest`.
std::vector<int32_t> WarmUpContexts(int32_t longest);

}  // namespace baton
