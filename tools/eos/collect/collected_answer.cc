#include "tools/eos/collect/collected_answer.h"

#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/eos/eos_row.h"
#include "common/rpc/finish_text.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

FinishReason ReasonFor(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP_EOS:
      return FinishReason::kStopEos;
    case v1::FINISH_REASON_STOP_TOKEN:
      return FinishReason::kStopToken;
    case v1::FINISH_REASON_STOP_STRING:
      return FinishReason::kStopString;
    case v1::FINISH_REASON_STOP_GRAMMAR:
      return FinishReason::kStopGrammar;
    case v1::FINISH_REASON_LENGTH:
      return FinishReason::kLength;
    case v1::FINISH_REASON_RUNAWAY:
      return FinishReason::kRunaway;
    default:
      return FinishReason::kNone;
  }
}

EosSignal SignalOf(const v1::EosStep& step) {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  return {.eos_logprob = step.has_eos_logprob() ? static_cast<float>(step.eos_logprob()) : kNone,
          .eos_prob_sampling = static_cast<float>(step.eos_prob_sampling()),
          .eos_rank = step.eos_rank(),
          .entropy = static_cast<float>(step.entropy()),
          .top1_prob = static_cast<float>(step.top1_prob())};
}

absl::Status Broken(const CollectRequest& request, std::string_view found,
                    std::string_view expected) {
  return absl::FailedPreconditionError(absl::StrCat("request ", request.id, ": found ",
                                                    std::string(found), "; expected ",
                                                    std::string(expected)));
}

absl::Status CheckSteps(const CollectRequest& request, const CollectGrid& grid,
                        const Outcome& outcome) {
  if (outcome.several()) {
    return Broken(request, "several answers",
                  "one; leave n, best_of and beam_width out and use --seeds");
  }
  const size_t tokens = outcome.token_ids.size();
  if (tokens == 0 || outcome.eos_steps.size() != tokens) {
    return Broken(request,
                  absl::StrCat(tokens, " tokens and ", outcome.eos_steps.size(), " EOS steps"),
                  "at least one token and a step for each of them, as a Baton router gives");
  }
  for (size_t i = 0; i < tokens; ++i) {
    if (outcome.eos_steps[i].step() == static_cast<int32_t>(i) + 1) continue;
    return Broken(request, absl::StrCat("step ", outcome.eos_steps[i].step()),
                  absl::StrCat("step ", i + 1));
  }
  if (ReasonFor(outcome.final.finish_reason()) == FinishReason::kNone) {
    return Broken(
        request,
        absl::StrCat("the finish reason ", v1::FinishReason_Name(outcome.final.finish_reason())),
        "one that this version of baton knows; use that of the server");
  }
  if (!grid.hidden) return absl::OkStatus();
  const int width = outcome.eos_steps[0].probe_size();
  for (const v1::EosStep& step : outcome.eos_steps) {
    if (step.probe_size() == width && width > 0) continue;
    return Broken(request, absl::StrCat(step.probe_size(), " probe products at step ", step.step()),
                  width > 0 ? absl::StrCat(width, " as at step 1; give all workers the same probe")
                            : "some; --hidden needs workers that were started with a probe file");
  }
  return absl::OkStatus();
}

void AddRows(const Outcome& outcome, const std::shared_ptr<const EosRequestFacts>& facts,
             CollectedAnswer* answer) {
  const size_t count = outcome.token_ids.size();
  for (size_t i = 0; i < count; ++i) {
    const v1::EosStep& step = outcome.eos_steps[i];
    const bool last = i + 1 == count;
    // The API does not say which attempt a token is of: all have that in which the request ended.
    AppendEosLine(
        {.request = facts,
         .timestamp = step.timestamp(),
         .step = step.step(),
         .token = outcome.token_ids[i],
         .signal = SignalOf(step),
         .finish_reason = last ? ReasonFor(outcome.final.finish_reason()) : FinishReason::kNone,
         .natural_end_step = std::nullopt,
         .attempt = outcome.final.attempts()},
        &answer->rows);
    answer->projections.insert(answer->projections.end(), step.probe().begin(), step.probe().end());
  }
  answer->row_count = static_cast<int64_t>(count);
}

}  // namespace

absl::StatusOr<CollectedAnswer> AnswerOf(const CollectPrompt& prompt, const CollectRequest& request,
                                         const CollectGrid& grid, const Outcome& outcome,
                                         std::optional<TokenId> eos_token_id) {
  BATON_RETURN_IF_ERROR(CheckSteps(request, grid, outcome));
  const int32_t prompt_length = outcome.final.usage().prompt_tokens();
  CollectedAnswer answer;
  AddRows(outcome,
          std::make_shared<const EosRequestFacts>(EosRequestFacts{.request_id = request.id,
                                                                  .eos_token_id = eos_token_id,
                                                                  .prompt_length = prompt_length,
                                                                  .policy = EosPolicy::kHonor}),
          &answer);
  if (grid.hidden) answer.width = outcome.eos_steps[0].probe_size();
  nlohmann::ordered_json line = {
      {"request_id", request.id},
      {"family", prompt.family},
      {"prompt_index", request.prompt},
      {"prompt_sha256", prompt.sha256},
      {"seed", request.seed},
      {"temperature", AsGiven(request.temperature)},
      {"top_p", AsGiven(grid.top_p)},
      {"max_tokens", request.max_tokens ? nlohmann::ordered_json(*request.max_tokens)
                                        : nlohmann::ordered_json(nullptr)},
      {"finish_reason", FinishReasonText(outcome.final.finish_reason())},
      {"prompt_length", prompt_length},
      {"output_length", answer.row_count},
      {"projection_width", answer.width},
      {"token_ids", outcome.token_ids}};
  answer.summary = line.dump() + "\n";
  return answer;
}

}  // namespace baton
