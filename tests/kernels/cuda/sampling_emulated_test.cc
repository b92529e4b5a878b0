// The sampling kernels, run thread by thread on the host, against the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/cuda/sample_draw.h"
#include "kernels/reference/sample.h"
#include "tests/kernels/cuda/emulated_sampler.h"
#include "tests/kernels/random_rows.h"

namespace baton::kernels::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Raw logits, coarse enough that ties occur.
std::vector<float> Logits(size_t vocab, uint32_t seed, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(vocab);
  for (float& x : logits) x = std::round(normal(random) * 64) / 64;
  return logits;
}

std::vector<SampledToken> Reference(std::span<const float> logits,
                                    std::span<const SampleRow> rows) {
  SampleProcessors processors;
  std::vector<SampledToken> tokens(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t vocab = logits.size() / rows.size();
    reference::SampleRowInto(rows[i], logits.subspan(i * vocab, vocab), processors, tokens[i]);
  }
  return tokens;
}

std::vector<float> Repeated(const std::vector<float>& logits, size_t rows) {
  std::vector<float> all;
  for (size_t i = 0; i < rows; ++i) all.insert(all.end(), logits.begin(), logits.end());
  return all;
}

void ExpectClose(float actual, float expected, float tolerance, const char* what) {
  if (std::isnan(expected) || std::isinf(expected)) {
    EXPECT_TRUE(actual == expected || (std::isnan(actual) && std::isnan(expected)))
        << what << ": " << actual << " for " << expected;
  } else {
    EXPECT_NEAR(actual, expected, tolerance * std::max(1.0f, std::abs(expected))) << what;
  }
}

void ExpectSame(const SampledToken& actual, const SampledToken& expected) {
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

std::vector<SampledToken> Emulate(std::span<const float> logits, std::span<const SampleRow> rows,
                                  HostCta::Order order = HostCta::Order::kForward) {
  EmulatedSampler sampler({.vocab = static_cast<int32_t>(logits.size() / rows.size()),
                           .rows = static_cast<int32_t>(rows.size())},
                          order);
  return sampler.Sample(logits, rows);
}

void ExpectAsReference(const std::vector<float>& logits, std::span<const SampleRow> rows,
                       HostCta::Order order = HostCta::Order::kForward) {
  const std::vector<float> all = Repeated(logits, rows.size());
  const auto actual = Emulate(all, rows, order);
  const auto expected = Reference(all, rows);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size() && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message()
                 << "vocab " << logits.size() << " row " << i << " temperature "
                 << rows[i].temperature << " top_k " << rows[i].top_k << " top_p " << rows[i].top_p
                 << " min_p " << rows[i].min_p << " seed " << rows[i].seed);
    ExpectSame(actual[i], expected[i]);
  }
}

// `count` rows like `row`, each with a seed of its own.
std::vector<SampleRow> Seeded(SampleRow row, size_t count) {
  std::vector<SampleRow> rows(count, row);
  for (size_t i = 0; i < count; ++i) rows[i].seed = 1000003 * i + 17;
  return rows;
}

struct Size {
  int vocab;
  size_t rows;
};

class SamplingSizesTest : public testing::TestWithParam<Size> {};

TEST_P(SamplingSizesTest, RandomRequestsGiveTheTokensOfTheReference) {
  const auto [vocab, count] = GetParam();
  for (const float spread : {0.02f, 3.0f, 60.0f}) {
    const RandomRows random(count, vocab, static_cast<uint32_t>(vocab));
    SCOPED_TRACE(spread);
    ExpectAsReference(Logits(vocab, 77, spread), random.rows());
  }
}

TEST_P(SamplingSizesTest, EachSettingAloneGivesTheTokensOfTheReference) {
  const auto [vocab, count] = GetParam();
  const std::vector<int32_t> history = {0, vocab / 2, vocab / 2, vocab - 1};
  const std::vector<std::pair<int32_t, float>> bias = {{vocab - 1, 4.0f}, {0, -3}, {0, 0.1f}};
  const std::vector<int32_t> stop = {vocab - 1, 0, vocab - 1, vocab, -1};
  std::vector<SampleRow> settings = {
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
      {.temperature = 1, .repetition_penalty = 1.3f, .prompt = history},
      {.temperature = 1, .presence_penalty = 2, .output = history},
      {.temperature = 1, .frequency_penalty = -2, .output = history},
      {.temperature = 1, .no_repeat_ngram_size = 1, .output = history},
      {.temperature = 1, .logit_bias = bias},
      {.temperature = 1, .stop_ids = stop, .mask_stop_ids = true},
      {.temperature = 1, .eos_ids = stop, .stop_ids = stop, .redraw_eos = true},
      {.temperature = 1e-30f},
      {.temperature = 1e30f, .top_p = 0.5f},
      {.temperature = 1, .num_top_logprobs = 20},
      {.eos_ids = stop, .redraw_eos = true},
      {},
  };
  const std::vector<float> logits = Logits(vocab, 5, 2);
  for (size_t i = 0; i < settings.size() && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    ExpectAsReference(logits, Seeded(settings[i], std::min<size_t>(count, 4)));
  }
}

INSTANTIATE_TEST_SUITE_P(Vocab, SamplingSizesTest,
                         testing::Values(Size{1, 60}, Size{2, 60}, Size{31, 60}, Size{1023, 40},
                                         Size{2048, 40}, Size{2049, 40}, Size{32000, 10},
                                         Size{151936, 3}),
                         [](const auto& size) { return std::to_string(size.param.vocab); });

TEST(SamplingEmulatedTest, TiesAreCutAsTheReferenceCutsThem) {
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
          ExpectAsReference(logits, Seeded(row, 5));
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST(SamplingEmulatedTest, NeighbouringFloatsAreToldApart) {
  // Logits one unit in the last place apart share a bin at every width but the last.
  for (const float base : {1.0f, 1e-20f, -3e30f, 0.0f}) {
    std::vector<float> logits(4096);
    float x = base;
    for (float& logit : logits) logit = x = std::nextafter(x, kInfinity);
    std::shuffle(logits.begin(), logits.end(), std::mt19937(3));
    for (const int top_k : {1, 2, 700, 4000}) {
      ExpectAsReference(logits, Seeded({.temperature = 1, .top_k = top_k, .top_p = 0.9f}, 4));
      ExpectAsReference(logits, Seeded({.temperature = 1e-6f, .top_k = top_k, .top_p = 0.5f}, 4));
      if (HasFailure()) return;
    }
  }
}

TEST(SamplingEmulatedTest, MinusInfinityIsNeverDrawn) {
  std::vector<float> logits(3000, -kInfinity);
  logits[1234] = -5;
  logits[2999] = -6;
  const std::vector<int32_t> eos = {7, 1234};
  ExpectAsReference(logits, Seeded({.temperature = 1}, 20));
  ExpectAsReference(logits, Seeded({.temperature = 1, .top_k = 100, .top_p = 0.5f}, 20));
  ExpectAsReference(logits, Seeded({.temperature = 1,
                                    .eos_ids = eos,
                                    .stop_ids = eos,
                                    .redraw_eos = true,
                                    .num_top_logprobs = 5},
                                   20));
  const std::vector<int32_t> masked_eos = {7};
  ExpectAsReference(logits, Seeded({.eos_ids = masked_eos}, 1));
}

TEST(SamplingEmulatedTest, HugeLogitsDoNotOverflow) {
  std::vector<float> logits(100, -3e38f);
  logits[3] = logits[70] = 3.4e38f;
  const std::vector<std::pair<int32_t, float>> bias = {{70, 3e38f}, {5, 3e38f}};
  ExpectAsReference(logits, Seeded({.temperature = 1, .top_p = 0.9f}, 10));
  ExpectAsReference(logits, Seeded({.temperature = 1, .logit_bias = bias}, 10));
}

TEST(SamplingEmulatedTest, WhenMasksLeaveNothingTheRawLogitsAreDrawn) {
  const std::vector<float> logits = Logits(40, 8, 2);
  std::vector<int32_t> all(40);
  std::iota(all.begin(), all.end(), 0);
  for (const bool redraw : {false, true}) {
    const SampleRow row{.temperature = 1,
                        .eos_ids = all,
                        .stop_ids = all,
                        .mask_stop_ids = true,
                        .redraw_eos = redraw};
    ExpectAsReference(logits, Seeded(row, 20));
    SampleRow some = row;  // the stop set leaves nothing, the EOS ids alone leave something
    some.eos_ids = row.eos_ids.first(39);
    ExpectAsReference(logits, Seeded(some, 20));
  }
}

TEST(SamplingEmulatedTest, LogitsThatAreNoDistributionGiveTokenZero) {
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
    std::vector<float> logits = Logits(5000, 9, 2);
    logits[4999] = poison;
    const auto tokens = Emulate(logits, Seeded({.temperature = 1, .num_top_logprobs = 3}, 1));
    EXPECT_EQ(tokens[0].token, 0);
    EXPECT_TRUE(tokens[0].top_logprobs.empty());
  }
  const std::vector<float> masked(50, -kInfinity);
  EXPECT_EQ(Emulate(masked, Seeded({}, 1))[0].token, 0);
}

// A phase whose threads depend on each other would show here.
TEST(SamplingEmulatedTest, TheOrderOfThreadsDoesNotMatter) {
  const RandomRows random(40, 5003, 12);
  const std::vector<float> logits = Repeated(Logits(5003, 78, 3), 40);
  const auto forward = Emulate(logits, random.rows());
  for (const auto order : {HostCta::Order::kBackward, HostCta::Order::kShuffled}) {
    const auto other = Emulate(logits, random.rows(), order);
    for (size_t i = 0; i < forward.size(); ++i) {
      ASSERT_EQ(other[i].token, forward[i].token);
      ASSERT_EQ(other[i].logprob, forward[i].logprob);
      ASSERT_EQ(other[i].eos.entropy, forward[i].eos.entropy);
      ASSERT_EQ(other[i].eos.eos_prob_sampling, forward[i].eos.eos_prob_sampling);
      ASSERT_EQ(other[i].top_logprobs.size(), forward[i].top_logprobs.size());
    }
  }
}

TEST(SamplingEmulatedTest, ARowIsTheSameAloneAndInABatch) {
  const RandomRows random(20, 5003, 9);
  const std::vector<float> logits = Logits(5003, 78, 3);
  const auto together = Emulate(Repeated(logits, 20), random.rows());
  for (size_t i = 0; i < together.size(); ++i) {
    const auto alone = Emulate(logits, std::span(random.rows()).subspan(i, 1))[0];
    EXPECT_EQ(alone.token, together[i].token);
    EXPECT_EQ(alone.logprob, together[i].logprob);
    EXPECT_EQ(alone.eos.eos_logprob, together[i].eos.eos_logprob);
    EXPECT_EQ(alone.eos.entropy, together[i].eos.entropy);
    EXPECT_EQ(alone.eos.eos_prob_sampling, together[i].eos.eos_prob_sampling);
  }
}

// The draw in tiles must give way where its rounding could choose another id than the plain loop.
TEST(SamplingEmulatedTest, ACoinAtABoundaryFallsAsThePlainLoopSays) {
  for (const int vocab : {3, 2048, 10007}) {
    const std::vector<float> logits = Logits(vocab, 21, 1);
    RowView view;
    view.logits = logits.data();
    view.vocab = vocab;
    view.highest = *std::max_element(logits.begin(), logits.end());
    const auto shared = std::make_unique<DrawShared>();
    HostCta cta(kDrawThreads);
    double total = 0;
    std::vector<double> running;
    for (int id = 0; id < vocab; ++id) running.push_back(total += view.Weight(id));
    std::mt19937 random(4);
    for (int i = 0; i < 30; ++i) {
      const int id = static_cast<int>(random() % static_cast<uint32_t>(vocab));
      for (double coin : {running[id] / total, std::nextafter(running[id] / total, 0.0),
                          std::nextafter(running[id] / total, 2.0)}) {
        coin = std::min(coin, 1 - 0x1.0p-53);
        const auto past = std::upper_bound(running.begin(), running.end(), coin * total);
        const auto expected = std::min<int64_t>(past - running.begin(), vocab - 1);
        const Drawn drawn = TossCoin(cta, view, coin, *shared);
        ASSERT_EQ(drawn.token, expected) << "vocab " << vocab << " id " << id;
        ASSERT_EQ(drawn.total, total) << "the plain sum";
      }
    }
  }
}

}  // namespace
}  // namespace baton::kernels::cuda
