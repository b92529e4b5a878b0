#include "tests/sim/oracle.h"

#include "common/sample/stop.h"
#include "tests/sim/random_grammar.h"

namespace baton::sim {

Expected Predict(const FakeModelOptions& model, const kernels::KvLayout& layout,
                 const SequenceSpec& spec, const std::vector<TokenId>& eos_ids, int32_t max_tokens,
                 std::optional<uint64_t> grammar) {
  Expected expected;
  StopCriteria stop(spec.stop, eos_ids, max_tokens, std::nullopt);
  std::vector<TokenId> history = spec.prompt;
  while (expected.reason == FinishReason::kNone) {
    const auto prompt_tokens = static_cast<int32_t>(spec.prompt.size());
    auto row = MakeSampleRow(spec.sampling, stop, history, prompt_tokens);
    std::vector<TokenId> allowed;
    std::vector<uint32_t> mask;
    if (grammar) {
      allowed = RandomGrammar(*grammar).Allowed(expected.tokens);
      row.allowed = mask = RandomGrammar::MaskOf(allowed);
      if (RandomGrammar::Forces(allowed)) ++expected.forced;
    }
    SampledToken token = FakeDraw(model, FakeHistoryHash(layout, history), row);
    token.only_end = allowed == std::vector<TokenId>{RandomGrammar::kEos};
    expected.tokens.push_back(token.token);
    const auto step = static_cast<int32_t>(expected.tokens.size());
    expected.reason = stop.Take(step, &token).reason;
    history.push_back(token.token);
  }
  expected.natural_end = stop.natural_end_step();
  return expected;
}

}  // namespace baton::sim
