#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "common/base/ids.h"

// What is believed about the end of an answer, as plain data: schedulers and wires need no more.
namespace baton {

// Estimates say how likely the end is within so many more tokens.
inline constexpr std::array<int32_t, 5> kEndHorizons = {1, 4, 16, 64, 256};

// What made an estimate.
enum class PredictorKind : uint8_t {
  kNone,
  kLearnt,  // survival, learnt from the requests that this worker served
  kSurvival,
  kLogistic,
  kTrees,
  kMlp,
  kGru,
  kSum,
};
// "learnt", "survival", …; "none" for kNone.
constexpr std::string_view PredictorKindName(PredictorKind kind) {
  constexpr std::array<std::string_view, 8> kNames = {"none",  "learnt", "survival", "logistic",
                                                      "trees", "mlp",    "gru",      "sum"};
  const auto at = static_cast<size_t>(kind);
  return at < kNames.size() ? kNames[at] : kNames[0];
}
// The kind of that name; kNone for any other.
constexpr PredictorKind PredictorKindOf(std::string_view name) {
  for (uint8_t at = 1; at <= static_cast<uint8_t>(PredictorKind::kSum); ++at) {
    if (PredictorKindName(PredictorKind{at}) == name) return PredictorKind{at};
  }
  return PredictorKind::kNone;
}

// Made from the output steps 1..at_step of a request, of ends at steps behind it. It speaks of the
// end that the model wants: a limit on the length may come first. Remaining counts tokens, that of
// the end included, so it is 1 or more. Who has no estimate has none: there is no value for that.
struct EndEstimate {
  int32_t at_step = 0;
  float expected_remaining = 0;
  float p50 = 0, p90 = 0;                             // quantiles of remaining, whole numbers
  std::array<float, kEndHorizons.size()> p_within{};  // of remaining <= horizon
  PredictorKind kind = PredictorKind::kNone;

  friend bool operator==(const EndEstimate&, const EndEstimate&) = default;
};

// Whether it is known when the end comes, as at a limit, and nothing is left to chance. Both
// quantiles are the same of an estimate, too, where most of its ends lie at one token.
inline bool IsSure(const EndEstimate& end) {
  return end.p50 == end.p90 && end.p50 == end.expected_remaining;
}

// What came of "the model ends the answer within so many tokens".
enum class EndOutcome : uint8_t {
  // The request's limit left less than the horizon. Such an estimate is not judged however its
  // answer ended: of those that the limit cut off nobody can tell, so the rest are mostly ends.
  kNotJudged,
  kEnded,
  kWentOn,
  kUnknown,  // neither the model nor the limit ended the answer, before the horizon was over
};

// What came of an estimate, once its sequence was over.
struct EndScore {
  EndEstimate estimate;
  std::array<EndOutcome, kEndHorizons.size()> outcomes{};
  int32_t remaining = 0;  // tokens that followed; 0 = not known
};

}  // namespace baton
