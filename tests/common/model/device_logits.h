#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "common/model/load_model.h"
#include "gtest/gtest.h"
#include "tests/common/model/model_harness.h"

namespace baton::test {

// Of each row that a token follows, a number for each id.
using Rows = std::vector<std::vector<float>>;

// The largest magnitude.
inline double Scale(const std::vector<float>& logits) {
  double scale = 0;
  for (const float logit : logits) scale = std::max<double>(scale, std::abs(logit));
  return scale;
}

inline int32_t Argmax(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Logits after each of `rows`, from one step over `ids`; zeros, and a failure of the test, where
// the step fails, so that the tests behind it still run.
inline Rows ComputeLogits(LoadedModel& model, const std::vector<TokenId>& ids,
                          const std::vector<int32_t>& rows) {
  std::vector<int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<int32_t> blocks(ids.size() / model.kv().layout.block_size + 1);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<int32_t>(2 * i + 1);
  const kernels::StepLayout::Sequence sequence = {.num_tokens = static_cast<int32_t>(ids.size()),
                                                  .context = static_cast<int32_t>(ids.size()),
                                                  .blocks = blocks};
  const auto logits = model.transformer->Forward(
      {.tokens = ids, .positions = positions, .sequences = {&sequence, 1}, .sample_rows = rows},
      model.kv());
  EXPECT_TRUE(logits.ok()) << logits.status();
  const absl::Status ended = model.backend->EndStep();
  EXPECT_TRUE(ended.ok()) << ended;
  const int64_t cols = logits.ok() ? logits->cols : model.config.vocab;
  Rows result(rows.size(), std::vector<float>(static_cast<size_t>(cols)));
  if (!logits.ok()) return result;
  for (size_t i = 0; i < rows.size(); ++i) {
    const absl::Status read = model.backend->Download(
        logits->row(static_cast<int64_t>(i)), result[i].size() * sizeof(float), result[i].data());
    EXPECT_TRUE(read.ok()) << read;
  }
  return result;
}

// Holds the logits of a prompt on two single ranks against each other. Sums that differ in the last
// bit may round an input of a product by integers to the code beside it, and no further: the most
// that they may differ, as a share of the largest logit, is for that. Floats are further apart, for
// their inputs are not rounded at all.
inline void ExpectNearLogits(LoadedModel& model, LoadedModel& other, double share = 0.02) {
  const std::vector<TokenId> ids = {17, 3, 250, 42, 99, 7, 180, 64, 23};
  const std::vector<int32_t> rows = {0, 4, 8};
  const Rows logits = ComputeLogits(model, ids, rows);
  const Rows expected = ComputeLogits(other, ids, rows);
  for (size_t row = 0; row < rows.size(); ++row) {
    const double tolerance = share * Scale(expected[row]);
    for (size_t id = 0; id < expected[row].size(); ++id) {
      ASSERT_NEAR(logits[row][id], expected[row][id], tolerance) << "row " << row << ", " << id;
    }
  }
}

// Likewise for models on any number of ranks: log-probabilities of all ids after prompts.
inline void ExpectNearLogprobs(LoadedModel& model, LoadedModel& other) {
  const auto logprobs_of = [](LoadedModel& of, const std::vector<TokenId>& prompt) {
    TestSequence sequence{.prompt = prompt};
    sequence.sampling.num_top_logprobs = of.config.vocab;
    RunnerDriver(of).Generate({&sequence}, 1, 512);
    std::vector<float> logprobs(static_cast<size_t>(of.config.vocab));
    for (const TokenLogprob& entry : sequence.samples[0].top_logprobs) {
      logprobs[static_cast<size_t>(entry.token)] = entry.logprob;
    }
    return logprobs;
  };
  const std::vector<TokenId> ids = {17, 3, 250, 42, 99, 7, 180, 64, 23};
  for (const int32_t length : {1, 5, 9}) {
    const std::vector<TokenId> prompt(ids.begin(), ids.begin() + length);
    const std::vector<float> logprobs = logprobs_of(model, prompt);
    const std::vector<float> expected = logprobs_of(other, prompt);
    const auto [least, most] = std::minmax_element(expected.begin(), expected.end());
    const double tolerance = 0.01 * (*most - *least);
    for (size_t id = 0; id < expected.size(); ++id) {
      ASSERT_NEAR(logprobs[id], expected[id], tolerance) << "after " << length << ", " << id;
    }
  }
}

}  // namespace baton::test
