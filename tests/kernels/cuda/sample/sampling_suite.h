#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "kernels/cuda/sample/sample_packer.h"
#include "tests/kernels/cuda/sample/sample_compare.h"
#include "tests/kernels/random_rows.h"

// Every way to run the sampling kernels gives the tokens of the reference. A Sampler is made from
// SamplerLimits and has Sample(logits, rows) as Backend::Sample of one step.
namespace baton::kernels::cuda {

template <typename Sampler>
class SamplingSuite : public testing::Test {
 protected:
  static std::vector<SampledToken> Draws(std::span<const float> logits,
                                         std::span<const SampleRow> rows) {
    Sampler sampler({.vocab = static_cast<int32_t>(logits.size() / rows.size()),
                     .rows = static_cast<int32_t>(rows.size())});
    return sampler.Sample(logits, rows);
  }

  static void ExpectAsReference(const std::vector<float>& logits, std::span<const SampleRow> rows) {
    const std::vector<float> all = Repeated(logits, rows.size());
    const auto actual = Draws(all, rows);
    const auto expected = Reference(all, rows);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size() && !HasFailure(); ++i) {
      SCOPED_TRACE(testing::Message()
                   << "vocab " << logits.size() << " row " << i << " temperature "
                   << rows[i].temperature << " top_k " << rows[i].top_k << " top_p "
                   << rows[i].top_p << " min_p " << rows[i].min_p << " seed " << rows[i].seed);
      ExpectSame(actual[i], expected[i]);
    }
  }
};
TYPED_TEST_SUITE_P(SamplingSuite);

struct SamplingSize {
  int vocab;
  size_t rows;
};
inline constexpr SamplingSize kSizes[] = {{1, 60},    {2, 60},    {31, 60},    {1023, 40},
                                          {2048, 40}, {2049, 40}, {32000, 10}, {151936, 3}};

TYPED_TEST_P(SamplingSuite, RandomRequestsGiveTheTokensOfTheReference) {
  for (const auto [vocab, count] : kSizes) {
    for (const float spread : {0.02f, 3.0f, 60.0f}) {
      const RandomRows random(count, vocab, static_cast<uint32_t>(vocab));
      SCOPED_TRACE(spread);
      this->ExpectAsReference(Logits(vocab, 77, spread), random.rows());
      if (testing::Test::HasFailure()) return;
    }
  }
}

// One row for each setting alone.
class SettingsAlone {
 public:
  explicit SettingsAlone(int vocab)
      : history_{0, vocab / 2, vocab / 2, vocab - 1},
        stop_{-1, 0, vocab - 1, vocab},
        bias_{{vocab - 1, 4.0f}, {0, -3}, {0, 0.1f}} {
    stop_.erase(std::unique(stop_.begin(), stop_.end()), stop_.end());
    rows_ = {
        {.temperature = 1},
        {.temperature = 1, .top_k = 1},
        {.temperature = 1, .top_k = 40},
        {.temperature = 1, .top_k = vocab},
        {.temperature = 1, .top_p = 0.9f},
        {.temperature = 1, .top_p = 1e-9f},
        {.temperature = 0.7f, .top_p = 0.99999994f},
        {.temperature = 1, .min_p = 0.1f},
        {.temperature = 1, .min_p = 1},
        {.temperature = 1, .top_k = 20, .top_p = 0.5f, .min_p = 0.02f},
        {.temperature = 1, .repetition_penalty = 1.3f, .prompt = history_},
        {.temperature = 1, .presence_penalty = 2, .output = history_},
        {.temperature = 1, .frequency_penalty = -2, .output = history_},
        {.temperature = 1, .banned_ids = history_},
        {.temperature = 1, .logit_bias = bias_},
        {.temperature = 1, .eos_bias = 3.3f, .eos_ids = stop_},
        {.temperature = 1, .logit_bias = bias_, .eos_bias = -0.7f, .eos_ids = stop_},
        {.temperature = 1, .stop_ids = stop_, .mask_stop_ids = true},
        {.temperature = 1, .eos_ids = stop_, .stop_ids = stop_, .redraw_eos = true},
        {.temperature = 1e-30f},
        {.temperature = 1e30f, .top_p = 0.5f},
        {.temperature = 1, .num_top_logprobs = 20},
        {.eos_ids = stop_, .redraw_eos = true},
        {},
    };
  }
  const std::vector<SampleRow>& rows() const { return rows_; }

 private:
  std::vector<int32_t> history_;
  std::vector<int32_t> stop_;
  std::vector<std::pair<int32_t, float>> bias_;
  std::vector<SampleRow> rows_;
};

TYPED_TEST_P(SamplingSuite, EachSettingAloneGivesTheTokensOfTheReference) {
  for (const auto [vocab, count] : kSizes) {
    const std::vector<float> logits = Logits(vocab, 5, 2);
    const SettingsAlone settings(vocab);
    for (size_t i = 0; i < settings.rows().size(); ++i) {
      SCOPED_TRACE(i);
      this->ExpectAsReference(logits, Seeded(settings.rows()[i], std::min<size_t>(count, 4)));
      if (testing::Test::HasFailure()) return;
    }
  }
}

TYPED_TEST_P(SamplingSuite, TiesAreCutAsTheReferenceCutsThem) {
  for (const int vocab : {31, 2048, 5000}) {
    std::vector<float> flat(vocab, 1.5f);
    std::vector<float> two(vocab, -4.0f);
    for (int i = 0; i < vocab; i += 3) two[i] = i % 2 == 0 ? 0.0f : -0.0f;
    std::vector<float> steps(vocab);
    for (int i = 0; i < vocab; ++i) steps[i] = static_cast<float>(i % 7);
    for (const auto& logits : {flat, two, steps}) {
      for (const int top_k : {0, 1, 5, vocab / 2, vocab - 1}) {
        for (const float top_p : {1.0f, 0.999f, 0.6f, 0.31f, 1e-6f}) {
          const SampleRow row{
              .temperature = 0.8f, .top_k = top_k, .top_p = top_p, .num_top_logprobs = 7};
          this->ExpectAsReference(logits, Seeded(row, 5));
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TYPED_TEST_P(SamplingSuite, NeighbouringFloatsAreToldApart) {
  // Logits one unit in the last place apart share a bin at every width but the last.
  for (const float base : {1.0f, 1e-20f, -3e30f, 0.0f}) {
    std::vector<float> logits(4096);
    float x = base;
    for (float& logit : logits) logit = x = std::nextafter(x, kInfinity);
    std::shuffle(logits.begin(), logits.end(), std::mt19937(3));
    for (const int top_k : {1, 2, 700, 4000}) {
      this->ExpectAsReference(logits, Seeded({.temperature = 1, .top_k = top_k, .top_p = 0.9f}, 4));
      this->ExpectAsReference(logits,
                              Seeded({.temperature = 1e-6f, .top_k = top_k, .top_p = 0.5f}, 4));
      if (testing::Test::HasFailure()) return;
    }
  }
}

TYPED_TEST_P(SamplingSuite, MinusInfinityIsNeverDrawn) {
  std::vector<float> logits(3000, -kInfinity);
  logits[1234] = -5;
  logits[2999] = -6;
  const std::vector<int32_t> eos = {7, 1234};
  this->ExpectAsReference(logits, Seeded({.temperature = 1}, 20));
  this->ExpectAsReference(logits, Seeded({.temperature = 1, .top_k = 100, .top_p = 0.5f}, 20));
  this->ExpectAsReference(logits, Seeded({.temperature = 1,
                                          .eos_ids = eos,
                                          .stop_ids = eos,
                                          .redraw_eos = true,
                                          .num_top_logprobs = 5},
                                         20));
  const std::vector<int32_t> masked_eos = {7};
  this->ExpectAsReference(logits, Seeded({.eos_ids = masked_eos}, 1));
}

TYPED_TEST_P(SamplingSuite, HugeLogitsDoNotOverflow) {
  std::vector<float> logits(100, -3e38f);
  logits[3] = logits[70] = 3.4e38f;
  const std::vector<std::pair<int32_t, float>> bias = {{70, 3e38f}, {5, 3e38f}};
  this->ExpectAsReference(logits, Seeded({.temperature = 1, .top_p = 0.9f}, 10));
  this->ExpectAsReference(logits, Seeded({.temperature = 1, .logit_bias = bias}, 10));
}

TYPED_TEST_P(SamplingSuite, TheProbabilityOfEosIsNeverAboveOne) {
  std::vector<int32_t> all(9);
  std::iota(all.begin(), all.end(), 0);
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const auto logits = Logits(9, seed, 30);
    const auto token = this->Draws(logits, Seeded({.eos_ids = all, .stop_ids = all}, 1))[0];
    EXPECT_LE(token.eos.eos_logprob, 0) << seed;
    EXPECT_LE(token.eos.eos_prob_sampling, 1) << seed;
  }
}

TYPED_TEST_P(SamplingSuite, WhenMasksLeaveNothingTheRawLogitsAreDrawn) {
  const std::vector<float> logits = Logits(40, 8, 2);
  std::vector<int32_t> all(40);
  std::iota(all.begin(), all.end(), 0);
  for (const bool redraw : {false, true}) {
    const SampleRow row{.temperature = 1,
                        .eos_ids = all,
                        .stop_ids = all,
                        .mask_stop_ids = true,
                        .redraw_eos = redraw};
    this->ExpectAsReference(logits, Seeded(row, 20));
    SampleRow some = row;  // the stop set leaves nothing, the EOS ids alone leave something
    some.eos_ids = row.eos_ids.first(39);
    this->ExpectAsReference(logits, Seeded(some, 20));
  }
}

TYPED_TEST_P(SamplingSuite, MasksThatLeaveNothingLeaveBiasPenaltiesAndTheGuide) {
  const std::vector<float> logits = Logits(5003, 8, 2);
  std::vector<int32_t> all(5003);
  std::iota(all.begin(), all.end(), 0);
  const std::vector<std::pair<int32_t, float>> bias = {{7, 4.0f}, {4999, 3.0f}};
  const std::vector<int32_t> output = {7, 7, 30};
  std::vector<uint32_t> allowed(157, 0);
  for (const int32_t id : {7, 30, 600, 4999}) allowed[id / 32] |= 1u << (id % 32);
  for (const bool guided : {false, true}) {
    for (const bool redraw : {false, true}) {
      SampleRow row{.temperature = 1,
                    .frequency_penalty = 0.5f,
                    .logit_bias = bias,
                    .banned_ids = all,
                    .output = output};
      if (guided) {
        row.allowed = allowed;
      } else if (redraw) {
        row.eos_ids = row.stop_ids = std::span(all).subspan(7, 1);
        row.redraw_eos = true;
      }
      this->ExpectAsReference(logits, Seeded(row, 40));
    }
  }
}

TYPED_TEST_P(SamplingSuite, LogitsThatAreNoDistributionAreNotValid) {
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
    std::vector<float> logits = Logits(5000, 9, 2);
    logits[4999] = poison;
    const auto tokens = this->Draws(logits, Seeded({.temperature = 1, .num_top_logprobs = 3}, 1));
    EXPECT_FALSE(tokens[0].valid);
    EXPECT_EQ(tokens[0].token, 0) << "an id, for the step behind may feed it";
    EXPECT_TRUE(tokens[0].top_logprobs.empty());
  }
  const std::vector<float> masked(50, -kInfinity);
  EXPECT_FALSE(this->Draws(masked, Seeded({}, 1))[0].valid);
}

TYPED_TEST_P(SamplingSuite, ARowIsTheSameAloneAndInABatch) {
  const RandomRows random(20, 5003, 9);
  const std::vector<float> logits = Logits(5003, 78, 3);
  const auto together = this->Draws(Repeated(logits, 20), random.rows());
  for (size_t i = 0; i < together.size(); ++i) {
    const auto alone = this->Draws(logits, std::span(random.rows()).subspan(i, 1))[0];
    EXPECT_EQ(alone.token, together[i].token);
    EXPECT_EQ(alone.logprob, together[i].logprob);
    EXPECT_EQ(alone.eos.eos_logprob, together[i].eos.eos_logprob);
    EXPECT_EQ(alone.eos.entropy, together[i].eos.entropy);
    EXPECT_EQ(alone.eos.eos_prob_sampling, together[i].eos.eos_prob_sampling);
  }
}

REGISTER_TYPED_TEST_SUITE_P(SamplingSuite, RandomRequestsGiveTheTokensOfTheReference,
                            EachSettingAloneGivesTheTokensOfTheReference,
                            TiesAreCutAsTheReferenceCutsThem, NeighbouringFloatsAreToldApart,
                            MinusInfinityIsNeverDrawn, HugeLogitsDoNotOverflow,
                            TheProbabilityOfEosIsNeverAboveOne,
                            WhenMasksLeaveNothingTheRawLogitsAreDrawn,
                            MasksThatLeaveNothingLeaveBiasPenaltiesAndTheGuide,
                            LogitsThatAreNoDistributionAreNotValid, ARowIsTheSameAloneAndInABatch);

}  // namespace baton::kernels::cuda
