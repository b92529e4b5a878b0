#pragma once

#include "absl/status/status.h"
#include "common/model/transformer.h"
#include "kernels/paged_kv.h"

namespace baton {

// Steps of meaningless tokens that run before a worker serves. When the KV cache gets the rest of a
// device's memory, the device has then loaded and taken what it needs.

// Runs the largest step that the transformer's limits allow, over KV blocks of its own.
absl::Status RunLargestStep(Transformer& transformer, const kernels::KvLayout& layout);

// Runs decode steps of every padded size, each twice, because a backend captures the second one.
// Overwrites block 0.
absl::Status RunDecodeSteps(Transformer& transformer, const kernels::PagedKv& kv);

}  // namespace baton
