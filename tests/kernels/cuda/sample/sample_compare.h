#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "kernels/reference/sample.h"
#include "kernels/sampling.h"

// What the samplers of the device, emulated or real, are compared with.
namespace baton::kernels::cuda {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Raw logits, coarse enough that ties occur.
inline std::vector<float> Logits(size_t vocab, uint32_t seed, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(vocab);
  for (float& x : logits) x = std::round(normal(random) * 64) / 64;
  return logits;
}

inline std::vector<SampledToken> Reference(std::span<const float> logits,
                                           std::span<const SampleRow> rows) {
  SampleProcessors processors;
  std::vector<SampledToken> tokens(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t vocab = logits.size() / rows.size();
    reference::SampleRowInto(rows[i], logits.subspan(i * vocab, vocab), processors, tokens[i]);
  }
  return tokens;
}

inline std::vector<float> Repeated(const std::vector<float>& logits, size_t rows) {
  std::vector<float> all;
  for (size_t i = 0; i < rows; ++i) all.insert(all.end(), logits.begin(), logits.end());
  return all;
}

inline void ExpectClose(float actual, float expected, float tolerance, const char* what) {
  if (std::isnan(expected) || std::isinf(expected)) {
    EXPECT_TRUE(actual == expected || (std::isnan(actual) && std::isnan(expected)))
        << what << ": " << actual << " for " << expected;
  } else {
    EXPECT_NEAR(actual, expected, tolerance * std::max(1.0f, std::abs(expected))) << what;
  }
}

inline void ExpectSame(const SampledToken& actual, const SampledToken& expected) {
  EXPECT_TRUE(actual.valid);
  EXPECT_EQ(actual.token, expected.token);
  EXPECT_EQ(actual.natural_end, expected.natural_end);
  EXPECT_EQ(actual.eos.eos_rank, expected.eos.eos_rank);
  ExpectClose(actual.eos.eos_prob_sampling, expected.eos.eos_prob_sampling, 1e-7f, "hazard");
  ExpectClose(actual.eos.eos_logprob, expected.eos.eos_logprob, 2e-6f, "eos_logprob");
  ExpectClose(actual.eos.entropy, expected.eos.entropy, 2e-5f, "entropy");
  ExpectClose(actual.eos.top1_prob, expected.eos.top1_prob, 2e-6f, "top1_prob");
  ExpectClose(actual.logprob, expected.logprob, 2e-6f, "logprob");
  ASSERT_EQ(actual.top_logprobs.size(), expected.top_logprobs.size());
  for (size_t i = 0; i < actual.top_logprobs.size(); ++i) {
    EXPECT_EQ(actual.top_logprobs[i].token, expected.top_logprobs[i].token);
    ExpectClose(actual.top_logprobs[i].logprob, expected.top_logprobs[i].logprob, 2e-6f, "top");
  }
}

// `count` rows like `row`, each with a seed of its own.
inline std::vector<SampleRow> Seeded(SampleRow row, size_t count) {
  std::vector<SampleRow> rows(count, row);
  for (size_t i = 0; i < count; ++i) rows[i].seed = 1000003 * i + 17;
  return rows;
}

}  // namespace baton::kernels::cuda
