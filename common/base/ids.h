#pragma once

#include <cstdint>

#include "common/base/strong_id.h"

// The ids that cross more than one library.
namespace baton {

// A block of the paged KV cache: index into the arena of one worker.
using BlockId = base::StrongId<struct BlockIdTag, int32_t>;

// A sequence inside one engine. Unique for the life of the process, never reused, never on the
// wire.
using SequenceId = base::StrongId<struct SequenceIdTag, uint64_t>;

// A token of the model's vocabulary. Plain, because it is arithmetic data in every kernel.
using TokenId = int32_t;

}  // namespace baton
