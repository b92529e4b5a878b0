// The EOS signal of a step against a plain computation in double from the same logits.
#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/kernels/sample_fixture.h"

namespace baton::kernels {
namespace {

struct Oracle {
  double eos_logprob = 0;
  int32_t eos_rank = 0;
  double entropy = 0;
  double top1_prob = 0;
};

Oracle Compute(const std::vector<float>& logits, const std::vector<int32_t>& eos) {
  long double total = 0;
  for (const float x : logits) total += std::exp(static_cast<long double>(x));
  Oracle oracle;
  long double eos_mass = 0;
  for (size_t id = 0; id < logits.size(); ++id) {
    const long double p = std::exp(static_cast<long double>(logits[id])) / total;
    if (p > 0) oracle.entropy -= static_cast<double>(p * std::log(p));
    oracle.top1_prob = std::max(oracle.top1_prob, static_cast<double>(p));
    if (std::find(eos.begin(), eos.end(), id) != eos.end()) eos_mass += p;
  }
  oracle.eos_logprob = static_cast<double>(std::log(eos_mass));
  for (const int32_t id : eos) {
    int32_t rank = 1;
    for (size_t other = 0; other < logits.size(); ++other) {
      if (logits[other] > logits[id]) ++rank;
      if (logits[other] == logits[id] && static_cast<int32_t>(other) < id) ++rank;
    }
    oracle.eos_rank = oracle.eos_rank == 0 ? rank : std::min(oracle.eos_rank, rank);
  }
  return oracle;
}

class EosSignalTest : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override { backend_ = Make(GetParam()); }
  std::unique_ptr<Backend> backend_;
};

TEST_P(EosSignalTest, EqualsADoubleComputation) {
  for (const int vocab : {2, 9, 32, 2048, 32000}) {
    for (const float spread : {0.5f, 3.0f, 12.0f}) {
      SCOPED_TRACE(testing::Message() << vocab << " " << spread);
      const std::vector<float> logits = RandomLogits(vocab, 5, spread);
      std::vector<int32_t> eos = {1, vocab / 2, vocab - 1};
      eos.erase(std::unique(eos.begin(), eos.end()), eos.end());
      // Neither temperature nor processors nor the draw may show in the raw signal.
      const SampleRow row{.temperature = 0.3f,
                          .top_k = 5,
                          .repetition_penalty = 3,
                          .output = eos,
                          .eos_ids = eos,
                          .stop_ids = eos,
                          .mask_stop_ids = true};
      const SampledToken sampled = SampleOne(*backend_, logits, row);
      const Oracle oracle = Compute(logits, eos);
      const double prob = std::exp(oracle.eos_logprob);
      EXPECT_NEAR(std::exp(static_cast<double>(sampled.eos.eos_logprob)), prob, 1e-6 * prob + 1e-9);
      EXPECT_NEAR(sampled.eos.eos_logprob, oracle.eos_logprob,
                  1e-6 * std::max(1.0, std::abs(oracle.eos_logprob)));
      EXPECT_EQ(sampled.eos.eos_rank, oracle.eos_rank);
      EXPECT_NEAR(sampled.eos.entropy, oracle.entropy, 1e-6 * std::max(1.0, oracle.entropy));
      EXPECT_NEAR(sampled.eos.top1_prob, oracle.top1_prob, 1e-6);
    }
  }
}

TEST_P(EosSignalTest, NoProbabilityIsAboveOneNorEntropyBelowZero) {
  for (int seed = 0; seed < 200; ++seed) {
    const int vocab = 2 + seed % 9;
    const std::vector<float> logits = RandomLogits(vocab, static_cast<uint32_t>(seed), 30);
    // Every id ends the answer, so the probability of EOS is one, up to rounding.
    std::vector<int32_t> eos(static_cast<size_t>(vocab));
    std::iota(eos.begin(), eos.end(), 0);
    const SampledToken sampled = SampleOne(*backend_, logits, {.eos_ids = eos, .stop_ids = eos});
    EXPECT_LE(sampled.eos.eos_logprob, 0) << seed;
    EXPECT_GE(sampled.eos.eos_logprob, -1e-6) << seed;
    EXPECT_LE(sampled.eos.eos_prob_sampling, 1) << seed;
    EXPECT_LE(sampled.eos.top1_prob, 1) << seed;
    EXPECT_GE(sampled.eos.entropy, 0) << seed;
  }
}

TEST_P(EosSignalTest, AnEosOfNegligibleProbabilityStillHasALogprob) {
  std::vector<float> logits(100, 0.0f);
  logits[7] = -500;
  const std::vector<int32_t> eos = {7};
  const SampledToken sampled = SampleOne(*backend_, logits, {.eos_ids = eos});
  EXPECT_NEAR(sampled.eos.eos_logprob, -500 - std::log(99.0), 1e-3);
  EXPECT_EQ(sampled.eos.eos_rank, 100);
}

TEST_P(EosSignalTest, WithoutEosIdsThereIsNoSignal) {
  const std::vector<int32_t> outside = {-1, 500};
  for (const std::span<const int32_t> eos : {std::span<const int32_t>(), std::span(outside)}) {
    const SampledToken sampled = SampleOne(*backend_, {1, 2, 3}, {.eos_ids = eos});
    EXPECT_TRUE(std::isnan(sampled.eos.eos_logprob));
    EXPECT_EQ(sampled.eos.eos_rank, 0);
    EXPECT_EQ(sampled.eos.eos_prob_sampling, 0);
    EXPECT_GT(sampled.eos.entropy, 0);
  }
}

// The hazard is the stop set's mass in exactly the distribution that the coin meets.
TEST_P(EosSignalTest, HazardIsTheStopSetsMassAfterAllProcessors) {
  std::vector<float> logits = {std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.1f)};
  const std::vector<int32_t> stop = {1, 3};
  SampleRow row{.temperature = 1, .eos_ids = std::span(stop).first(1), .stop_ids = stop};
  const auto hazard = [&] { return SampleOne(*backend_, logits, row).eos.eos_prob_sampling; };
  EXPECT_NEAR(hazard(), 0.4, 1e-6);
  row.top_k = 3;
  EXPECT_NEAR(hazard(), 0.3 / 0.9, 1e-6);
  row.top_k = 0;
  row.top_p = 0.6f;
  EXPECT_NEAR(hazard(), 0.3 / 0.7, 1e-6);
  row.top_p = 1;
  row.min_p = 0.6f;
  EXPECT_NEAR(hazard(), 0.3 / 0.7, 1e-6);
  row.min_p = 0;
  row.temperature = 0.5f;
  EXPECT_NEAR(hazard(), (0.09 + 0.01) / (0.16 + 0.09 + 0.04 + 0.01), 1e-6);
  row.temperature = 0;
  EXPECT_EQ(hazard(), 0);
  std::swap(logits[0], logits[1]);
  EXPECT_EQ(hazard(), 1);
  row.mask_stop_ids = true;
  EXPECT_EQ(hazard(), 0);
}

TEST_P(EosSignalTest, AnEosBiasMovesTheHazardAndNoRawFigure) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  const std::vector<int32_t> eos = {2};
  const SampleRow row{
      .temperature = 1, .eos_bias = std::log(4.0f), .eos_ids = eos, .stop_ids = eos};
  const EosSignal moved = SampleOne(*backend_, logits, row).eos;
  EXPECT_NEAR(moved.eos_prob_sampling, 0.8 / 1.6, 1e-6);
  EXPECT_NEAR(moved.eos_logprob, std::log(0.2), 1e-6);
  EXPECT_EQ(moved.eos_rank, 3);
  EXPECT_NEAR(moved.top1_prob, 0.5, 1e-6);
}

TEST_P(EosSignalTest, LogprobsAreOfTheRawDistribution) {
  std::vector<float> logits = {std::log(0.4f), std::log(0.1f), std::log(0.4f), std::log(0.1f)};
  const std::vector<std::pair<int32_t, float>> bias = {{3, 50.0f}};
  const SampledToken sampled = SampleOne(
      *backend_, logits, {.temperature = 0.1f, .logit_bias = bias, .num_top_logprobs = 3});
  EXPECT_EQ(sampled.token, 3);
  EXPECT_NEAR(sampled.logprob, std::log(0.1), 1e-6);
  ASSERT_EQ(sampled.top_logprobs.size(), 3u);
  EXPECT_EQ(sampled.top_logprobs[0].token, 0);
  EXPECT_EQ(sampled.top_logprobs[1].token, 2);
  EXPECT_EQ(sampled.top_logprobs[2].token, 1) << "ties by the lower id";
  EXPECT_NEAR(sampled.top_logprobs[1].logprob, std::log(0.4), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(All, EosSignalTest, testing::ValuesIn(SamplingWays()), WayName);

}  // namespace
}  // namespace baton::kernels
