// The part of RequestFlow that brings the prompt and what the model thinks of it to the client.
#include <utility>

#include "absl/strings/str_cat.h"
#include "router/request/logprob_messages.h"
#include "router/request/request_flow.h"

namespace baton {

void RequestFlow::ShowPrompt(std::string text) {
  if (!spec_.echo && !spec_.prompt_logprobs) return;
  v1::Prompt prompt;
  if (spec_.echo) {
    prompt.set_text(std::move(text));
    prompt.mutable_token_ids()->Assign(spec_.prompt.begin(), spec_.prompt.end());
  }
  if (spec_.prompt_logprobs) {
    FillText(*context_->model.tokenizer, spec_.prompt.front(), prompt.add_logprobs());
  }
  const absl::Status taken = sink_->Show(std::move(prompt));
  if (!taken.ok()) Fail(taken, FinishReason::kError);
}

bool RequestFlow::TakeScores(const PlacedScores& scores) {
  const int32_t left = NextScore() > 0 ? static_cast<int32_t>(spec_.prompt.size()) - scored_ : 0;
  if (scores.first_index != scored_ || std::ssize(scores.scores) > left) {
    FailAttempt({.status = absl::InternalError(absl::StrCat(
                     scores.scores.size(), " scores from token ", scores.first_index,
                     " of the prompt on; expected at most ", left, " from ", scored_, " on"))});
    return false;
  }
  v1::Prompt prompt;
  for (const TokenScore& score : scores.scores) {
    const TokenId token = spec_.prompt[static_cast<size_t>(scored_++)];
    FillLogprobs({.token = token, .logprob = score.logprob, .top_logprobs = score.top_logprobs},
                 *context_->model.tokenizer, prompt.add_logprobs());
  }
  const absl::Status taken = sink_->Show(std::move(prompt));
  if (!taken.ok()) Fail(taken, FinishReason::kError);
  return taken.ok();
}

}  // namespace baton
