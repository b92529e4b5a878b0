#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "common/base/ids.h"

namespace baton {

// How a token sequence becomes a chain of hashes, one for each full block: a block's hash covers
// its tokens, all blocks before it and the salt. Workers find cached blocks by it, and routers
// remember by it what they sent to whom. Collisions can be made on purpose, so a hash only ever
// says where to look.
//
// Where the chain of a salt begins: the parent of its first block.
uint64_t HashSalt(std::string_view salt);
// The hash of the block with `tokens` behind `parent`, the hash of the block before it.
uint64_t HashBlock(uint64_t parent, std::span<const TokenId> tokens);

}  // namespace baton
