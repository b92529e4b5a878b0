#pragma once

#include "absl/status/status.h"
#include "common/model/transformer.h"
#include "kernels/paged_kv.h"

namespace baton {

// Runs steps of meaningless tokens before a worker serves, so that a device has loaded what it
// needs, and its memory is taken, when the KV cache gets the rest.

// The largest step of the transformer's limits, over KV blocks of its own.
absl::Status RunLargestStep(Transformer& transformer, const kernels::KvLayout& layout);

// Decode steps of every padded size, twice: the second is the one that a backend captures.
// Overwrites block 0.
absl::Status RunDecodeSteps(Transformer& transformer, const kernels::PagedKv& kv);

}  // namespace baton
