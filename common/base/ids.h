#pragma once

#include <cstdint>

#include "common/base/strong_id.h"

// The ids that cross more than one library.
namespace baton {

// A block of the paged KV cache, by its index in the arena of one worker.
using BlockId = base::StrongId<struct BlockIdTag, int32_t>;

// A sequence inside one engine. The id is unique for the life of the process, is never used again
// and never travels.
using SequenceId = base::StrongId<struct SequenceIdTag, uint64_t>;

// A token of the model's vocabulary. Plain, because it is arithmetic data in every kernel.
using TokenId = int32_t;

}  // namespace baton
