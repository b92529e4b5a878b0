#pragma once

#include <array>
#include <optional>

#include "common/sched/policy.h"

// What policies read out of a view. Lengths and remainders are in tokens.
namespace baton {

// In the KV cache, once its prompt is computed.
inline int32_t TokensHeld(const SequenceView& view) {
  return view.prompt_tokens + view.generated_tokens;
}

// How much is expected to follow, no more than the limit lets; nothing where nothing is known.
std::optional<double> ExpectedRemaining(const SequenceView& view);

// The chance that a sequence is still there so many tokens from now: straight lines between what
// its estimate says, an exponential tail as steep as p50 and p90 are apart behind that, and none
// behind its limit. One of which nothing is known stays.
class Survival final {
 public:
  explicit Survival(const SequenceView& view);
  double At(double tokens) const;

 private:
  struct Point {
    double tokens = 0, stays = 1;
  };
  bool known_ = false, sure_ = false;
  double limit_ = 0;
  std::array<Point, 3 + kEndHorizons.size()> points_{};  // by tokens; chances never grow
  double tail_tokens_ = 0;  // in which a chance falls to its e-th part; 0: at once
};

// Whether it has an even chance or better to be over within kEndHorizons[2] tokens.
bool IsAboutToEnd(const SequenceView& view);

// Whether `a` gives its blocks up before `b`: who is about to end last, and of the others the one
// that would hold most for longest, by tokens in the cache times tokens to come. Between two of
// which nothing is known the younger one yields; one of which nothing is known yields behind one
// that is expected to go on.
bool YieldsByWork(const SequenceView& a, const SequenceView& b);

}  // namespace baton
