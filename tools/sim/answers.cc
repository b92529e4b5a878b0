#include "tools/sim/answers.h"

namespace baton::simulator {

SampledToken AnswerAt(const SimRequest& request, int32_t step, bool forced) {
  SampledToken token;
  token.token = kAnyToken;
  const auto at = static_cast<size_t>(step - 1);
  if (request.recorded != nullptr && at < request.recorded->size()) {
    const RecordedToken& recorded = (*request.recorded)[at];
    token.token = recorded.token;
    token.eos = recorded.signal;
  }
  if (!forced && step >= request.output_tokens) token.token = kEosToken;
  return token;
}

std::optional<EndEstimate> OracleEnd(const SimRequest& request, int32_t step) {
  const int32_t remaining = request.output_tokens - step;
  if (remaining < 1) return std::nullopt;
  const auto left = static_cast<float>(remaining);
  EndEstimate end = {.at_step = step, .expected_remaining = left, .p50 = left, .p90 = left};
  for (size_t i = 0; i < kEndHorizons.size(); ++i) {
    end.p_within[i] = remaining <= kEndHorizons[i] ? 1 : 0;
  }
  return end;
}

}  // namespace baton::simulator
