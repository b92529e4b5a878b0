// What is drawn: processors, cuts, the coin, the redraw; each against a plain computation.
#include <algorithm>
#include <numeric>
#include <vector>

#include "common/base/philox.h"
#include "common/base/status.h"
#include "tests/kernels/sample_fixture.h"

namespace baton::kernels {
namespace {

class SampleTest : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override { backend_ = Make(GetParam()); }
  int32_t Token(const std::vector<float>& logits, const SampleRow& row) {
    return SampleOne(*backend_, logits, row).token;
  }
  // The set of tokens that 2000 coins reach.
  std::vector<int32_t> Reached(const std::vector<float>& logits, SampleRow row) {
    std::vector<SampleRow> rows(2000, row);
    for (size_t i = 0; i < rows.size(); ++i) rows[i].seed = i;
    std::vector<int32_t> tokens;
    for (const SampledToken& t : SampleAll(*backend_, logits, rows)) tokens.push_back(t.token);
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    return tokens;
  }
  std::unique_ptr<Backend> backend_;
};

TEST_P(SampleTest, GreedyTakesTheHighestAndTheLowestIdOfATie) {
  EXPECT_EQ(Token({0, 3, 1, 3}, {}), 1);
  std::vector<float> logits(1000, -1.0f);
  logits[997] = logits[998] = 2;
  EXPECT_EQ(Token(logits, {}), 997);
}

TEST_P(SampleTest, RepetitionPenaltyCoversPromptAndOutputOnce) {
  const std::vector<int32_t> prompt = {0, 0};
  const std::vector<int32_t> output = {1};
  // 4 / 2 = 2 and 3.5 / 2 fall below 2.5; a second division would too.
  const SampleRow row{.repetition_penalty = 2, .prompt = prompt, .output = output};
  EXPECT_EQ(Token({4, 3.5, 2.5, -1}, row), 2);
  EXPECT_EQ(Token({4, 1, 1.9f, -1}, row), 0) << "divided once, 4 / 2 stays above 1.9";
  EXPECT_EQ(Token({-1, -4, -1.5f, -9}, row), 2) << "negative logits are multiplied";
}

TEST_P(SampleTest, PresenceAndFrequencyPenaltiesCoverTheOutputOnly) {
  const std::vector<int32_t> prompt = {0};
  const std::vector<int32_t> output = {1, 1, 2};
  const SampleRow presence{.presence_penalty = 1, .prompt = prompt, .output = output};
  EXPECT_EQ(Token({3, 3.9f, 3.95f, 0}, presence), 0);
  const SampleRow frequency{.frequency_penalty = 1, .prompt = prompt, .output = output};
  EXPECT_EQ(Token({0, 3.9f, 2.95f, 0}, frequency), 2) << "3.9 - 2 against 2.95 - 1";
}

TEST_P(SampleTest, BiasMovesAndOverflowingBiasStaysFinite) {
  const std::vector<std::pair<int32_t, float>> bias = {{2, 100.0f}, {99, 1.0f}, {-1, 1.0f}};
  EXPECT_EQ(Token({4, 3, 1}, {.logit_bias = bias}), 2);
  const std::vector<std::pair<int32_t, float>> huge = {{1, 3e38f}, {2, 3e38f}};
  const SampleRow row{.temperature = 1, .logit_bias = huge};
  EXPECT_EQ(Reached({0, 3e38f, 1}, row), (std::vector<int32_t>{1}));
}

TEST_P(SampleTest, EosBiasMovesAllEosIdsAndNoOthers) {
  const std::vector<int32_t> eos = {-5, 1, 2, 77};
  EXPECT_EQ(Token({4, 3, 3.5f, 1}, {.eos_bias = 0.75f, .eos_ids = eos}), 2);
  EXPECT_EQ(Token({4, 5, 5, 3}, {.eos_bias = -1.5f, .eos_ids = eos}), 0);
  const std::vector<std::pair<int32_t, float>> bias = {{1, 1.0f}};
  EXPECT_EQ(Token({4, 3, 3.5f, 1}, {.logit_bias = bias, .eos_bias = 0.75f, .eos_ids = eos}), 1);
}

TEST_P(SampleTest, PenaltiesComeBeforeTheEosBias) {
  const std::vector<int32_t> eos = {1};
  const std::vector<int32_t> output = {1};
  // 4 / 2 + 3 = 5; the other way round it would be 3.5.
  EXPECT_EQ(
      Token({4.5f, 4}, {.repetition_penalty = 2, .eos_bias = 3, .output = output, .eos_ids = eos}),
      1);
}

TEST_P(SampleTest, AMaskWinsAgainstTheEosBias) {
  const std::vector<int32_t> stop = {1};
  EXPECT_EQ(
      Token({4, 3}, {.eos_bias = 20, .eos_ids = stop, .stop_ids = stop, .mask_stop_ids = true}), 0);
}

TEST_P(SampleTest, BannedIdsAreNeverDrawn) {
  const std::vector<int32_t> banned = {1, 77, 3, -5, 1};
  EXPECT_EQ(Token({0, 9, 5, 8}, {}), 1);
  EXPECT_EQ(Token({0, 9, 5, 8}, {.banned_ids = banned}), 2);
  EXPECT_EQ(Reached({5, 5, 5, 5}, {.temperature = 1, .banned_ids = banned}),
            (std::vector<int32_t>{0, 2}));
}

TEST_P(SampleTest, StopSetIsMaskedUntilMinTokens) {
  const std::vector<int32_t> stop = {-5, 1, 77};
  const SampledToken masked =
      SampleOne(*backend_, {0, 9, 1}, {.stop_ids = stop, .mask_stop_ids = true});
  EXPECT_EQ(masked.token, 2);
  EXPECT_EQ(masked.eos.eos_prob_sampling, 0);
  EXPECT_EQ(Token({0, 9, 1}, {.stop_ids = stop}), 1);
}

TEST_P(SampleTest, OnlyAllowedIdsAreDrawn) {
  std::vector<float> logits(70, 5);
  logits[3] = 9;
  const std::vector<uint32_t> allowed = {0b10010, 0, 0b100000};  // 1, 4 and 69
  EXPECT_EQ(Token(logits, {.allowed = allowed}), 1);
  EXPECT_EQ(Reached(logits, {.temperature = 1, .allowed = allowed}),
            (std::vector<int32_t>{1, 4, 69}));
  // Ids beyond the bitmap are not allowed, bits beyond the vocabulary mean nothing.
  EXPECT_EQ(Reached(logits, {.temperature = 1, .allowed = std::span(allowed).first(1)}),
            (std::vector<int32_t>{1, 4}));
  EXPECT_EQ(Token({0, 1, 2}, {.allowed = allowed}), 1);
}

TEST_P(SampleTest, TheGuideWinsOverBiasAndOtherMasks) {
  const std::vector<uint32_t> allowed = {0b0110};
  const std::vector<std::pair<int32_t, float>> bias = {{3, 100.0f}, {2, 1.0f}};
  EXPECT_EQ(Token({0, 9, 8.5, 7}, {.logit_bias = bias, .allowed = allowed}), 2);
  // Of what is allowed the other masks take what they leave something of,
  const std::vector<int32_t> banned = {1};
  EXPECT_EQ(Token({0, 9, 8, 7}, {.banned_ids = banned, .allowed = allowed}), 2);
  // and nothing where they would take all of it.
  const std::vector<int32_t> stop = {2};
  for (const float temperature : {0.0f, 1e-3f}) {
    const SampleRow both = {.temperature = temperature,
                            .banned_ids = banned,
                            .allowed = allowed,
                            .stop_ids = stop,
                            .mask_stop_ids = true};
    EXPECT_EQ(Token({0, 9, 8, 70}, both), 1);
  }
}

TEST_P(SampleTest, MasksThatDoNotCountLeaveBiasAndPenalties) {
  const std::vector<uint32_t> allowed = {0b0110};
  const std::vector<int32_t> banned = {1, 2};
  const std::vector<std::pair<int32_t, float>> bias = {{2, 3.0f}};
  SampleRow row = {.logit_bias = bias, .banned_ids = banned, .allowed = allowed};
  EXPECT_EQ(Token({0, 9, 8, 70}, row), 2);
  row.eos_ids = row.stop_ids = std::span(banned).first(1);
  row.eos_bias = 3;
  EXPECT_EQ(Token({0, 9, 8, 70}, row), 1);
  row.output = row.eos_ids;
  row.frequency_penalty = 4;
  EXPECT_EQ(Token({0, 9, 8, 70}, row), 2);
  row.allowed = {};
  const std::vector<int32_t> all = {0, 1, 2, 3};
  row.banned_ids = all;
  EXPECT_EQ(Token({0, 9, 8, 7}, row), 2) << "nor without a guide";
}

TEST_P(SampleTest, TheSignalAndLogprobsKnowNothingOfTheGuide) {
  const std::vector<int32_t> eos = {3};
  const std::vector<uint32_t> allowed = {0b0010};
  const SampleRow free = {.eos_ids = eos, .stop_ids = eos, .num_top_logprobs = 2};
  SampleRow guided = free;
  guided.allowed = allowed;
  const SampledToken a = SampleOne(*backend_, {0, 2, 1, 9}, free);
  const SampledToken b = SampleOne(*backend_, {0, 2, 1, 9}, guided);
  EXPECT_EQ(a.token, 3);
  EXPECT_EQ(b.token, 1);
  EXPECT_EQ(a.eos.eos_logprob, b.eos.eos_logprob);
  EXPECT_EQ(a.eos.eos_rank, b.eos.eos_rank);
  EXPECT_EQ(a.eos.entropy, b.eos.entropy);
  EXPECT_EQ(b.eos.eos_prob_sampling, 0);
  ASSERT_EQ(b.top_logprobs.size(), 2u);
  EXPECT_EQ(b.top_logprobs[0].token, 3);
  EXPECT_EQ(b.logprob, a.top_logprobs[1].logprob);
}

TEST_P(SampleTest, MasksThatLeaveNothingAreNotApplied) {
  const std::vector<int32_t> all = {0, 1, 2};
  for (const float temperature : {0.0f, 1e-3f}) {
    EXPECT_EQ(
        Token({0, 9, 1}, {.temperature = temperature, .stop_ids = all, .mask_stop_ids = true}), 1);
    const SampledToken redrawn = SampleOne(
        *backend_, {0, 9, 1}, {.temperature = temperature, .eos_ids = all, .redraw_eos = true});
    EXPECT_EQ(redrawn.token, 1);
    EXPECT_TRUE(redrawn.natural_end);
  }
}

TEST_P(SampleTest, TopKKeepsExactlyKAndTheLowerIdsOfATie) {
  const std::vector<float> logits = {1, 5, 4, 4, 4, 0};
  EXPECT_EQ(Reached(logits, {.temperature = 1, .top_k = 3}), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(Reached(logits, {.temperature = 1, .top_k = 1}), (std::vector<int32_t>{1}));
  EXPECT_EQ(Reached(logits, {.temperature = 1, .top_k = 100}).size(), 6u);
}

TEST_P(SampleTest, TopPKeepsTheSmallestSetThatReachesP) {
  // Probabilities 0.4, 0.3, 0.2, 0.1 of ids 2, 0, 3, 1.
  std::vector<float> logits = {std::log(0.3f), std::log(0.1f), std::log(0.4f), std::log(0.2f)};
  const auto with = [&](float p) { return Reached(logits, {.temperature = 1, .top_p = p}); };
  EXPECT_EQ(with(0.39f), (std::vector<int32_t>{2}));
  EXPECT_EQ(with(0.41f), (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(with(0.69f), (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(with(0.71f), (std::vector<int32_t>{0, 2, 3}));
  EXPECT_EQ(with(0.95f), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(with(1e-6f), (std::vector<int32_t>{2}));
  // After top-k 2 the masses are 4/7 and 3/7.
  EXPECT_EQ(Reached(logits, {.temperature = 1, .top_k = 2, .top_p = 0.5f}),
            (std::vector<int32_t>{2}));
}

TEST_P(SampleTest, MinPIsRelativeToTheHighestAfterTemperature) {
  std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  EXPECT_EQ(Reached(logits, {.temperature = 1, .min_p = 0.5f}), (std::vector<int32_t>{0, 1}));
  // At temperature 2 ratios are square roots: 0.77 and 0.63.
  EXPECT_EQ(Reached(logits, {.temperature = 2, .min_p = 0.6f}), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(Reached(logits, {.temperature = 1, .min_p = 1}), (std::vector<int32_t>{0}));
}

TEST_P(SampleTest, ExtremeTemperatures) {
  EXPECT_EQ(Reached({1, 2, 1.5f}, {.temperature = 1e-38f}), (std::vector<int32_t>{1}));
  EXPECT_EQ(Reached({1, 2, 1.5f}, {.temperature = 1e30f}), (std::vector<int32_t>{0, 1, 2}));
}

TEST_P(SampleTest, TheCoinIsPhiloxOfSeedPositionAndDraw) {
  // Equal weights: the first id whose running sum exceeds u n is floor(u n).
  const std::vector<float> logits(1000, 0.25f);
  const std::vector<int32_t> prompt(7, 1);
  const std::vector<int32_t> output(4, 2);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const SampleRow row{.temperature = 0.7f, .prompt = prompt, .output = output, .seed = seed};
    const double u = base::Coin(seed, 11, 0);
    ASSERT_EQ(Token(logits, row), static_cast<int32_t>(u * 1000)) << seed;
  }
}

TEST_P(SampleTest, DrawsFollowTheDistribution) {
  constexpr int kVocab = 40;
  constexpr int kDraws = 40000;
  const std::vector<float> logits = RandomLogits(kVocab, 3, 1.2f);
  std::vector<double> expected(kVocab);
  double total = 0;
  for (int i = 0; i < kVocab; ++i) total += expected[i] = std::exp(logits[i] / 0.9);
  std::vector<SampleRow> rows(kDraws, SampleRow{.temperature = 0.9f});
  for (int i = 0; i < kDraws; ++i) rows[i].seed = 1000 + i;
  std::vector<int> counts(kVocab);
  for (const SampledToken& t : SampleAll(*backend_, logits, rows)) ++counts[t.token];
  double chi_square = 0;
  for (int i = 0; i < kVocab; ++i) {
    const double want = kDraws * expected[i] / total;
    chi_square += (counts[i] - want) * (counts[i] - want) / want;
  }
  // 39 degrees of freedom: 72.1 is the 0.1 % point. Seeds are fixed, so this cannot flicker.
  EXPECT_LT(chi_square, 72.1);
  EXPECT_GT(chi_square, 12) << "too good to be random";
}

TEST_P(SampleTest, AnEosDrawIsRecordedAndRedrawnWithoutEos) {
  const std::vector<int32_t> eos = {1, 3};
  const SampleRow greedy{.eos_ids = eos, .stop_ids = eos, .redraw_eos = true};
  SampledToken t = SampleOne(*backend_, {0, 5, 2, 4}, greedy);
  EXPECT_EQ(t.token, 2);
  EXPECT_TRUE(t.natural_end);
  EXPECT_EQ(t.eos.eos_prob_sampling, 1);
  t = SampleOne(*backend_, {0, 5, 6, 4}, greedy);
  EXPECT_EQ(t.token, 2);
  EXPECT_FALSE(t.natural_end);
  EXPECT_EQ(t.eos.eos_prob_sampling, 0);

  // Equal weights, so that both draws are known from their coins.
  const std::vector<float> logits(100, 1.0f);
  std::vector<int32_t> upper(50);
  std::iota(upper.begin(), upper.end(), 50);
  int ends = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const SampleRow row{
        .temperature = 1, .eos_ids = upper, .stop_ids = upper, .redraw_eos = true, .seed = seed};
    t = SampleOne(*backend_, logits, row);
    const bool end = base::Coin(seed, 0, 0) >= 0.5;
    ASSERT_EQ(t.natural_end, end) << seed;
    ASSERT_EQ(t.token, static_cast<int32_t>(end ? base::Coin(seed, 0, 1) * 50
                                                : base::Coin(seed, 0, 0) * 100));
    ASSERT_NEAR(t.eos.eos_prob_sampling, 0.5, 1e-6);
    ends += end ? 1 : 0;
  }
  EXPECT_GT(ends, 30);
}

TEST_P(SampleTest, NonFiniteLogitsSpoilTheirOwnRow) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float temperature : {0.0f, 1.0f}) {
    for (const std::vector<float>& bad :
         {std::vector<float>{1, nan, 2, 3, 4, 5, 6, 7, 8, 9}, std::vector<float>{1, 2, infinity},
          std::vector<float>(20, -infinity)}) {
      std::vector<float> good(bad.size());
      std::iota(good.begin(), good.end(), 1.0f);
      TestMatrix matrix(DType::kF32, 3, static_cast<int64_t>(bad.size()));
      for (int64_t row = 0; row < 3; ++row) {
        const std::vector<float>& logits = row == 1 ? bad : good;
        std::memcpy(matrix.view().row(row), logits.data(), logits.size() * sizeof(float));
      }
      std::vector<SampledToken> results(3);
      const SampleRow row{.temperature = temperature, .top_p = 0.9f, .num_top_logprobs = 2};
      const std::vector<SampleRow> rows(3, row);
      backend_->Sample(matrix.view(), rows, results);
      ASSERT_TRUE(backend_->EndStep().ok());
      EXPECT_FALSE(results[1].valid);
      EXPECT_TRUE(results[1].top_logprobs.empty());
      for (const size_t other : {0, 2}) {
        EXPECT_TRUE(results[other].valid);
        const SampledToken alone = SampleOne(*backend_, good, row);
        EXPECT_EQ(results[other].token, alone.token);
        EXPECT_EQ(results[other].logprob, alone.logprob);
      }
    }
  }
}

TEST_P(SampleTest, MinusInfinityIsAnIdThatCannotBeDrawn) {
  const float below = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(Reached({below, 1, below, 1}, {.temperature = 1}), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(Reached({below, 1, below, 1}, {.temperature = 1, .top_k = 3, .top_p = 0.99f}),
            (std::vector<int32_t>{1, 3}));
}

INSTANTIATE_TEST_SUITE_P(All, SampleTest, testing::ValuesIn(SamplingWays()), WayName);

}  // namespace
}  // namespace baton::kernels
