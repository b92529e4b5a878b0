#include "router/request/held_answers.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace baton {
namespace {

v1::Delta HeldDelta(int32_t index, const std::string& text) {
  v1::Delta delta;
  delta.set_index(index);
  delta.set_text(text);
  delta.add_token_ids(index);
  return delta;
}

v1::Final HeldFinal(int32_t index, double score) {
  v1::Final final;
  final.set_index(index);
  final.set_seed(static_cast<uint64_t>(100 + index));
  final.set_score(score);
  return final;
}

// The seeds of the best, in their order, of answers with these scores.
std::vector<uint64_t> BestSeeds(const std::vector<double>& scores, int32_t best) {
  HeldAnswers held(static_cast<int32_t>(scores.size()));
  for (size_t i = scores.size(); i-- > 0;) {  // they end in any order
    const auto index = static_cast<int32_t>(i);
    held.Append(HeldDelta(index, "t"));
    held.End(HeldFinal(index, scores[i]));
  }
  std::vector<uint64_t> seeds;
  for (const HeldAnswer& answer : held.TakeBest(best)) {
    EXPECT_EQ(answer.final.index(), static_cast<int32_t>(seeds.size()));
    for (const v1::Delta& delta : answer.deltas) EXPECT_EQ(delta.index(), answer.final.index());
    seeds.push_back(answer.final.seed());
  }
  return seeds;
}

TEST(HeldAnswersTest, TheBestComeFirstAndAreRenumbered) {
  EXPECT_EQ(BestSeeds({-2, -0.5, -3, -1}, 2), (std::vector<uint64_t>{101, 103}));
}

TEST(HeldAnswersTest, OfEqualsTheLowerIndexComesFirst) {
  EXPECT_EQ(BestSeeds({-2, -1, -1, -2}, 3), (std::vector<uint64_t>{101, 102, 100}));
}

TEST(HeldAnswersTest, AnAnswerThatCouldNotBeDrawnComesLast) {
  EXPECT_EQ(BestSeeds({-std::numeric_limits<double>::infinity(), -50}, 2),
            (std::vector<uint64_t>{101, 100}));
}

TEST(HeldAnswersTest, MessagesOfOneAnswerAreMergedUpToABound) {
  HeldAnswers held(2);
  const std::string text(1000, 'x');
  for (int i = 0; i < 200; ++i) held.Append(HeldDelta(0, text));
  held.Append(HeldDelta(1, "short"));
  held.End(HeldFinal(0, -1));
  held.End(HeldFinal(1, -2));
  const std::vector<HeldAnswer> best = held.TakeBest(2);
  ASSERT_EQ(best.size(), 2U);
  EXPECT_GT(best[0].deltas.size(), 1U);
  size_t bytes = 0;
  for (const v1::Delta& delta : best[0].deltas) {
    EXPECT_LE(delta.ByteSizeLong(), size_t{64} << 10);
    bytes += delta.text().size();
  }
  EXPECT_EQ(bytes, 200 * text.size());
  ASSERT_EQ(best[1].deltas.size(), 1U);
  EXPECT_EQ(best[1].deltas[0].text(), "short");
}

}  // namespace
}  // namespace baton
