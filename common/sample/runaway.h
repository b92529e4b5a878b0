#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "common/base/eos_signal.h"
#include "common/base/ids.h"

namespace baton {

// What happens to an answer that has run away. It is decided alike with each of them, so that only
// the action differs.
enum class RunawayAction {
  kOff,   // nothing
  kWarn,  // it is told, once, and the answer goes on
  kEnd    // the answer ends, as FinishReason::kRunaway
};

// Notices an answer that has run away: it says the same over and over, and the model sees no end.
// That is so when, over the last kWindow tokens of the answer,
//
//   - at least the share kRepeated of the runs of kGram tokens occurred before within them, and
//   - EOS had less than kChance at every step behind a token that ends a line or a sentence (at
//     every step where it is not known which tokens do): the raw figure, eos_prob.
//
// So it depends on the tokens and on one number beside them, the last step at which the answer had
// a chance to end. Whoever continues the answer elsewhere passes both on and gets the same
// decisions: `end_chance` of the tokens says where that step is.
//
// docs/eos.md tells how the constants were chosen.
class RunawayGuard {
 public:
  static constexpr int32_t kWindow = 256;
  static constexpr int32_t kGram = 4;
  static constexpr double kRepeated = 0.85;
  static constexpr double kChance = 0.05;

  // Continues `answer`, the tokens generated so far. `end_chance_step` is the last step of it,
  // counted from 1, that had a chance to end, 0 if none had. Where that is not known, the last one
  // counts as such, so that nothing is decided before a whole window was seen.
  // `boundaries` is the table of common/base/token_boundary.h; it outlives the guard.
  RunawayGuard(std::span<const TokenId> answer, std::optional<int32_t> end_chance_step,
               std::span<const uint8_t> boundaries);

  // Takes the next token, the last of `answer`; sets `end_chance` on it.
  void Take(std::span<const TokenId> answer, SampledToken* token);

  // Whether the answer, as it is now, has run away, if it may end at all: min_tokens is not known
  // here.
  bool runaway() const;

 private:
  using Gram = std::array<TokenId, kGram>;
  static constexpr int32_t kGrams = kWindow - kGram + 1;  // of a whole window

  static Gram RunBefore(std::span<const TokenId> answer, int32_t end);
  void LetGo(const Gram& gram);
  bool CouldEnd(std::span<const TokenId> answer) const;

  std::span<const uint8_t> boundaries_;
  int32_t length_ = 0;  // of the answer
  int32_t end_chance_step_ = 0;
  absl::flat_hash_map<Gram, int32_t> grams_;  // of the window, and how often each occurs
};

}  // namespace baton
