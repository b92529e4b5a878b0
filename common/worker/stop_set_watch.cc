#include "common/worker/stop_set_watch.h"

namespace baton {
namespace {

bool EndedByItself(FinishReason reason) {
  return reason == FinishReason::kStopEos || reason == FinishReason::kStopToken ||
         reason == FinishReason::kLength || reason == FinishReason::kRunaway;
}

}  // namespace

std::optional<StopSetWatch::Suspect> StopSetWatch::Take(FinishReason reason,
                                                        std::optional<TokenId> passed_special) {
  if (told_ || !passed_special || !EndedByItself(reason)) return std::nullopt;
  Suspect& suspect = seen_[*passed_special];
  suspect.id = *passed_special;
  ++suspect.answers;
  if (reason == FinishReason::kStopEos) ++suspect.ended_by_eos;
  if (suspect.answers < kAnswers || 2 * suspect.ended_by_eos >= suspect.answers) {
    return std::nullopt;
  }
  told_ = true;
  return suspect;
}

}  // namespace baton
