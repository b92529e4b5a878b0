#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/sample/params.h"
#include "common/sched/sequence.h"
#include "kernels/paged_kv.h"
#include "tests/fakes/fake_runner.h"

namespace baton::sim {

// What an undisturbed request gets, from the fake model's definition alone.
struct Expected {
  std::vector<TokenId> tokens;
  FinishReason reason = FinishReason::kNone;
  std::optional<int32_t> natural_end;
};
Expected Predict(const FakeModelOptions& model, const kernels::KvLayout& layout,
                 const SequenceSpec& spec, const std::vector<TokenId>& eos_ids, int32_t max_tokens);

}  // namespace baton::sim
