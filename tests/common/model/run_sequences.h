#pragma once

#include <cstdint>
#include <vector>

#include "common/model/load_model.h"
#include "tests/common/model/model_harness.h"

namespace baton::test {

constexpr int32_t kSequences = 9;
constexpr int32_t kAnswerTokens = 12;

// The prompt of one of kSequences requests: 1 to 57 ids, all below 256.
TestSequence SequenceOf(int32_t index);

// The greedy answers to all of them, in steps that they share, with prompts in chunks.
std::vector<std::vector<TokenId>> RunTogether(LoadedModel& model, int32_t chunk);
// The same, one after the other.
std::vector<std::vector<TokenId>> RunAlone(LoadedModel& model);

}  // namespace baton::test
