#pragma once

#include <cstdint>
#include <span>

#include "absl/container/flat_hash_set.h"
#include "common/base/block_hash.h"
#include "common/base/ids.h"

namespace baton {

// Tells a request whose numbers overflow, which spoils its own rows only, from a device or weights
// that are broken and spoil whatever they compute. A prompt counts once, so that one request of
// many answers is not taken for the second.
class DrawHealth {
 public:
  static constexpr size_t kMostSpoilt = 8;  // prompts

  void Drew() { spoilt_.clear(); }
  void Spoilt(std::span<const TokenId> prompt) { spoilt_.insert(HashBlock(0, prompt)); }

  // So many prompts were spoilt, and nothing was drawn since the first of them.
  bool broken() const { return spoilt_.size() >= kMostSpoilt; }

 private:
  absl::flat_hash_set<uint64_t> spoilt_;
};

}  // namespace baton
