#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/sample/params.h"
#include "common/sched/sequence.h"
#include "kernels/paged_kv.h"
#include "tests/fakes/fake_runner.h"

namespace baton::sim {

// What an undisturbed request gets, from the definitions of the fake model and of the grammar that
// it follows, if `grammar` is the seed of one.
struct Expected {
  std::vector<TokenId> tokens;
  FinishReason reason = FinishReason::kNone;
  std::optional<int32_t> natural_end;
  int32_t forced = 0;  // of the tokens
};
Expected Predict(const FakeModelOptions& model, const kernels::KvLayout& layout,
                 const SequenceSpec& spec, const std::vector<TokenId>& eos_ids, int32_t max_tokens,
                 std::optional<uint64_t> grammar = std::nullopt);

}  // namespace baton::sim
