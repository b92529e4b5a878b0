// All host backends draw the same tokens, and a row the same whatever the batch.
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "tests/kernels/random_rows.h"
#include "tests/kernels/sample_fixture.h"

namespace baton::kernels {
namespace {

class SampleIdentityTest : public testing::TestWithParam<Way> {};

void ExpectSame(const SampledToken& actual, const SampledToken& expected) {
  EXPECT_EQ(actual.token, expected.token);
  EXPECT_EQ(actual.natural_end, expected.natural_end);
  EXPECT_EQ(actual.eos.eos_rank, expected.eos.eos_rank);
  EXPECT_EQ(actual.eos.eos_prob_sampling, expected.eos.eos_prob_sampling);
  if (actual.logprob != expected.logprob) {  // both may be minus infinity
    EXPECT_NEAR(actual.logprob, expected.logprob,
                2e-6 * std::max(1.0f, std::abs(expected.logprob)));
  }
  ASSERT_EQ(actual.top_logprobs.size(), expected.top_logprobs.size());
  for (size_t i = 0; i < actual.top_logprobs.size(); ++i) {
    EXPECT_EQ(actual.top_logprobs[i].token, expected.top_logprobs[i].token);
  }
}

TEST_P(SampleIdentityTest, TokensEqualTheReference) {
  const auto backend = Make(GetParam());
  const auto reference = Make({Device::kReference, "auto", DType::kF32});
  for (const int vocab : {1, 3, 17, 101, 2048, 5003}) {
    for (const float spread : {0.02f, 3.0f, 60.0f}) {
      const RandomRows random(150, vocab, static_cast<uint32_t>(vocab));
      const std::vector<float> logits = RandomLogits(vocab, 77, spread);
      const auto actual = SampleAll(*backend, logits, random.rows());
      const auto expected = SampleAll(*reference, logits, random.rows());
      for (size_t i = 0; i < actual.size(); ++i) {
        SCOPED_TRACE(testing::Message()
                     << "vocab " << vocab << " spread " << spread << " row " << i << " top_k "
                     << random.rows()[i].top_k << " top_p " << random.rows()[i].top_p);
        ExpectSame(actual[i], expected[i]);
        if (HasFailure()) return;
      }
    }
  }
}

// Whole vocabularies, in which the end of what top-k and top-p keep has to be narrowed down: logits
// that tie by the hundred, that are masked out but for a few, and with one that lies far below all
// others.
TEST_P(SampleIdentityTest, TokensEqualTheReferenceInLargeVocabularies) {
  constexpr int kVocab = 40'003;
  const auto backend = Make(GetParam());
  const auto reference = Make({Device::kReference, "auto", DType::kF32});
  const std::vector<float> plain = RandomLogits(kVocab, 81, 4.0f);
  std::vector<float> tied = plain, masked = plain, flat(kVocab, 1.5f),
                     outlier = RandomLogits(kVocab, 82, 0.02f);
  for (float& logit : tied) logit = std::round(logit);
  for (size_t id = 0; id < masked.size(); ++id) {
    if (id % 5000 != 7) masked[id] = -std::numeric_limits<float>::infinity();
  }
  outlier[123] = -1e30f;
  // The difference of its ends is no finite number.
  std::vector<float> far(kVocab, -3e38f);
  for (size_t id = 0; id < far.size(); ++id) far[id] += static_cast<float>(id % 1000) * 1e34f;
  far[20] = 3e38f;
  far[30] = 2.99e38f;
  const RandomRows random(24, kVocab, 13);
  std::vector<SampleRow> rows = random.rows();
  rows.front() = {.temperature = 1, .top_p = 0};
  for (const std::vector<float>& logits : {plain, tied, masked, flat, outlier, far}) {
    const auto actual = SampleAll(*backend, logits, rows);
    const auto expected = SampleAll(*reference, logits, rows);
    for (size_t i = 0; i < actual.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "first logit " << logits[0] << " row " << i << " top_k "
                                      << rows[i].top_k << " top_p " << rows[i].top_p);
      ExpectSame(actual[i], expected[i]);
      if (HasFailure()) return;
    }
  }
}

TEST_P(SampleIdentityTest, ARowIsTheSameAloneAndInABatch) {
  Way one_thread = GetParam();
  one_thread.threads = 1;
  const auto alone = Make(one_thread);
  const auto batch = Make(GetParam());
  const RandomRows random(64, 5003, 9);
  const std::vector<float> logits = RandomLogits(5003, 78);
  const auto together = SampleAll(*batch, logits, random.rows());
  for (size_t i = 0; i < together.size(); ++i) {
    const SampledToken single = SampleOne(*alone, logits, random.rows()[i]);
    SCOPED_TRACE(i);
    ExpectSame(together[i], single);
    EXPECT_EQ(together[i].logprob, single.logprob);
    EXPECT_EQ(together[i].eos.eos_logprob, single.eos.eos_logprob);
    EXPECT_EQ(together[i].eos.entropy, single.eos.entropy);
  }
}

// A token's logprob is about as small here as a sum's last bits, which tell any other order of
// sums.
TEST_P(SampleIdentityTest, LogprobsDoNotDependOnWhichIdsEndAnAnswer) {
  constexpr int kVocab = 5003;
  const auto backend = Make(GetParam());
  std::vector<float> logits = RandomLogits(kVocab, 79, 1.0f);
  logits[4000] = 28;
  const auto sample = [&](std::span<const int32_t> eos_ids) {
    const SampleRow row{.eos_ids = eos_ids};
    return SampleAll(*backend, logits, {row}).front();
  };
  const SampledToken without = sample({});
  ASSERT_EQ(without.token, 4000);
  ASSERT_LT(without.logprob, 0);
  for (const int32_t eos : {0, 1, 7, 16, 250, 2500, 3999, 4000, 4001, 5002}) {
    const SampledToken with = sample(std::span(&eos, 1));
    EXPECT_EQ(with.logprob, without.logprob) << "with the end " << eos;
    EXPECT_EQ(with.eos.entropy, without.eos.entropy) << "with the end " << eos;
    int32_t ahead = 0;  // ties rank by id
    for (int32_t id = 0; id < kVocab; ++id) {
      const float logit = logits[static_cast<size_t>(id)];
      const float marked = logits[static_cast<size_t>(eos)];
      if (logit > marked || (logit == marked && id < eos)) ++ahead;
    }
    EXPECT_EQ(with.eos.eos_rank, 1 + ahead) << "with the end " << eos;
  }
}

TEST_P(SampleIdentityTest, GivenIdsCountAsTheLastOfTheOutput) {
  const auto backend = Make(GetParam());
  const RandomRows random(400, 101, 12);
  const std::vector<float> logits = RandomLogits(101, 80);
  std::vector<SampleRow> known, given, without;
  for (const SampleRow& row : random.rows()) {
    if (row.output.size() < 2) continue;
    known.push_back(row);
    without.push_back(row);
    without.back().output = row.output.first(row.output.size() - 2);
    given.push_back(without.back());
    given.back().given = row.output.last(2);
    given.back().one_of_several = true;
    EXPECT_EQ(SamplePosition(given.back()), SamplePosition(row));
    EXPECT_EQ(SampleStep(row), std::ssize(row.output) + 1);
  }
  const auto expected = SampleAll(*backend, logits, known);
  const auto actual = SampleAll(*backend, logits, given);
  const auto wrong = SampleAll(*backend, logits, without);
  int differ = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    SCOPED_TRACE(i);
    ExpectSame(actual[i], expected[i]);
    differ += wrong[i].token != expected[i].token ? 1 : 0;
  }
  EXPECT_GT(differ, 20);
}

TEST_P(SampleIdentityTest, APendingIdCountsAsTheLastOfTheOutput) {
  const auto backend = Make(GetParam());
  const RandomRows random(400, 101, 11);
  const std::vector<float> logits = RandomLogits(101, 79);
  std::vector<SampleRow> known, pending, without;
  for (const SampleRow& row : random.rows()) {
    if (row.output.empty()) continue;
    known.push_back(row);
    pending.push_back(row);
    pending.back().output = row.output.first(row.output.size() - 1);
    without.push_back(pending.back());
    pending.back().pending_output = true;
    pending.back().pending_id = row.output.back();
  }
  const auto expected = SampleAll(*backend, logits, known);
  const auto actual = SampleAll(*backend, logits, pending);
  const auto wrong = SampleAll(*backend, logits, without);
  int differ = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    SCOPED_TRACE(i);
    ExpectSame(actual[i], expected[i]);
    differ += wrong[i].token != expected[i].token ? 1 : 0;
  }
  EXPECT_GT(differ, 20) << "the last id matters nowhere";
}

INSTANTIATE_TEST_SUITE_P(Cpu, SampleIdentityTest, testing::ValuesIn([] {
                           std::vector<Way> ways = SamplingWays();
                           ways.erase(ways.begin());
                           return ways;
                         }()),
                         WayName);

}  // namespace
}  // namespace baton::kernels
