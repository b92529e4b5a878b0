#pragma once

#include <cstdint>
#include <span>

#include "absl/container/flat_hash_set.h"
#include "common/base/block_hash.h"
#include "common/base/ids.h"

namespace baton {

// Tells when so many prompts were spoilt that device or weights may be broken, which spoil whatever
// they compute, where a prompt whose numbers overflow spoils its own rows only. A prompt counts
// once, however many answers it is asked for.
class DrawHealth {
 public:
  static constexpr size_t kMostSpoilt = 8;  // prompts

  void Drew() { spoilt_.clear(); }
  void Spoilt(std::span<const TokenId> prompt) { spoilt_.insert(HashBlock(0, prompt)); }

  // So many prompts were spoilt, and nothing was drawn since the first of them.
  bool suspect() const { return spoilt_.size() >= kMostSpoilt; }

 private:
  absl::flat_hash_set<uint64_t> spoilt_;
};

}  // namespace baton
