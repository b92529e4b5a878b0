#include "tools/generate/summary.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/rpc/finish_text.h"
#include "tools/generate/eos_curve.h"
#include "tools/generate/logprobs_text.h"

namespace baton {
namespace {

constexpr size_t kCurveColumns = 60;

// How many tokens have to follow the first one for their rate to mean something: fewer may come in
// one message.
constexpr int32_t kFewestForRate = 8;

// Tokens per second after the first one; empty where there are too few of them, or all came at
// once, as those of a beam search do.
std::string RateOf(const OutcomeAnswer& outcome) {
  const auto& timings = outcome.final.timings();
  const double seconds = 1e-3 * (timings.total_ms() - timings.ttft_ms());
  const int32_t later = outcome.final.usage().completion_tokens() - 1;
  if (later < kFewestForRate || seconds <= 0) return "";
  return absl::StrFormat("%.1f tokens/s, ", later / seconds);
}

std::string CurveOf(const OutcomeAnswer& outcome) {
  std::vector<double> probabilities;
  for (const v1::EosStep& step : outcome.eos_steps) probabilities.push_back(step.eos_prob());
  if (probabilities.empty()) return "";
  const auto highest = std::max_element(probabilities.begin(), probabilities.end());
  return absl::StrFormat("  EOS %s  at most %.3g, at step %d of %d\n",
                         EosCurve(probabilities, kCurveColumns), *highest,
                         highest - probabilities.begin() + 1, probabilities.size());
}

// How much came behind a step. An answer that was cut off would have gone on; under a policy that
// ignores EOS the end that the model wanted may lie inside it.
std::string ActualText(const v1::Final& final, int32_t at_step) {
  const v1::Usage& usage = final.usage();
  if (usage.has_natural_end_step()) return absl::StrCat(usage.natural_end_step() - at_step);
  const bool ended = final.finish_reason() == v1::FINISH_REASON_STOP_EOS;
  return absl::StrCat(ended ? "" : "at least ", usage.completion_tokens() - at_step);
}

// What was predicted at the first step and after each quarter of the answer, beside what came.
std::string PredictedAndActual(const OutcomeAnswer& outcome) {
  if (outcome.predictions.empty()) return "";
  const int32_t tokens = outcome.final.usage().completion_tokens();
  std::string text;
  int32_t shown = 0;  // the last step
  for (int32_t quarter = 0; quarter < 4; ++quarter) {
    const int32_t from = std::max(1, tokens * quarter / 4);
    const auto found =
        std::find_if(outcome.predictions.begin(), outcome.predictions.end(),
                     [&](const auto& prediction) { return prediction.at_step() >= from; });
    if (found == outcome.predictions.end()) break;
    if (found->at_step() <= shown) continue;
    shown = found->at_step();
    absl::StrAppend(&text,
                    text.empty()
                        ? "  tokens to go, predicted/actual (predictor " + found->predictor() + "):"
                        : ";",
                    absl::StrFormat(" %.0f/%s at step %d", found->expected_remaining(),
                                    ActualText(outcome.final, shown), shown));
  }
  return text + "\n";
}

std::string MatchOf(const v1::Final& final) {
  if (final.has_stop_token_id()) return absl::StrCat(" ", final.stop_token_id());
  if (final.has_stop_string()) return absl::StrCat(" \"", final.stop_string(), "\"");
  return "";
}

// Of an answer by itself.
std::string AnswerSummary(const OutcomeAnswer& answer) {
  const v1::Final& final = answer.final;
  const v1::Usage& usage = final.usage();
  std::string text = absl::StrFormat(
      "  TTFT %.1f ms, %s%d+%d tokens, ended by %s (cause: %s%s)", final.timings().ttft_ms(),
      RateOf(answer), usage.prompt_tokens(), usage.completion_tokens(),
      std::string(FinishReasonText(final.finish_reason())),
      std::string(StopCauseText(final.stop_cause())), MatchOf(final));
  if (usage.has_natural_end_step()) {
    absl::StrAppend(&text, ", natural end at step ", usage.natural_end_step());
  }
  if (final.attempts() > 1) absl::StrAppend(&text, ", ", final.attempts(), " attempts");
  return text + "\n" + CurveOf(answer) + PredictedAndActual(answer) + LogprobsText(answer);
}

}  // namespace

std::string SummaryOf(const Outcome& outcome) {
  if (!outcome.status.ok()) return "  failed: " + ErrorText(outcome.status) + "\n";
  if (outcome.several()) return SummaryOf(static_cast<const OutcomeAnswer&>(outcome));
  return AnswerSummary(outcome);
}

std::string SummaryOf(const OutcomeAnswer& answer) {
  const bool drawn = answer.final.has_seed();
  std::string head = absl::StrCat("  answer ", answer.final.index());
  if (drawn) absl::StrAppend(&head, ", seed ", answer.final.seed());
  if (answer.final.has_score()) {
    absl::StrAppend(&head, drawn ? ", mean logprob " : ", score ",
                    absl::StrFormat("%.4f", answer.final.score()));
  }
  return head + "\n" + AnswerSummary(answer);
}

std::string ErrorText(const absl::Status& status) {
  const std::string code(CodeName(status.code()));
  const std::string reason(ReasonName(ReasonOf(status)));
  const std::string message(status.message().data(), status.message().size());
  return (reason.empty() ? code : reason + " (" + code + ")") + ": " + message;
}

}  // namespace baton
