// What a beam search decides, by candidates that are written down.
#include "common/sched/beam_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace baton {
namespace {

using ::testing::ElementsAre;

constexpr TokenId kBeamEos = 2;
constexpr TokenId kBeamStop = 3;

FinishReason EndOfBeam(TokenId id) {
  if (id == kBeamEos) return FinishReason::kStopEos;
  return id == kBeamStop ? FinishReason::kStopToken : FinishReason::kNone;
}

using Candidates = std::vector<TokenLogprob>;

void Advance(BeamGroup* group, const std::vector<Candidates>& candidates) {
  const std::vector<std::span<const TokenLogprob>> spans(candidates.begin(), candidates.end());
  group->Advance(spans);
}

std::vector<std::pair<int32_t, TokenId>> MembersOf(const BeamGroup& group) {
  std::vector<std::pair<int32_t, TokenId>> members;
  for (const BeamGroup::Member& member : group.members()) {
    members.emplace_back(member.parent, member.token);
  }
  return members;
}

using Beam = std::pair<int32_t, TokenId>;

TEST(BeamGroupTest, TheBestOfAllBeamsGoOn) {
  BeamGroup group({.width = 2, .results = 2}, 10, EndOfBeam);
  Advance(&group, {{{10, -1}, {11, -2}, {12, -3}}});
  EXPECT_THAT(MembersOf(group), ElementsAre(Beam(0, 10), Beam(0, 11)));
  Advance(&group, {{{20, -0.5F}, {21, -0.75F}, {22, -5}}, {{30, -0.1F}, {31, -4}, {32, -5}}});
  EXPECT_THAT(MembersOf(group), ElementsAre(Beam(0, 20), Beam(0, 21))) << "-1.5, -1.75, -2.1";
  EXPECT_DOUBLE_EQ(group.members()[1].logprobs, -1.75);
  EXPECT_EQ(group.steps(), 2);
  EXPECT_FALSE(group.done());
}

TEST(BeamGroupTest, EqualSumsGoToTheEarlierBeamAndThenToTheLowerId) {
  BeamGroup group({.width = 3, .results = 1}, 10, EndOfBeam);
  Advance(&group, {{{12, -1}, {11, -1}, {13, -1}, {10, -1}}});
  EXPECT_THAT(MembersOf(group), ElementsAre(Beam(0, 10), Beam(0, 11), Beam(0, 12)));
  Advance(&group, {{{50, -1}, {51, -9}, {52, -9}, {53, -9}},
                   {{41, -1}, {40, -1}, {52, -9}, {53, -9}},
                   {{30, -1}, {31, -1}, {52, -9}, {53, -9}}});
  EXPECT_THAT(MembersOf(group), ElementsAre(Beam(0, 50), Beam(1, 40), Beam(1, 41)));
}

TEST(BeamGroupTest, OnlyAnEndAmongTheFirstOfTheWidthFinishes) {
  BeamGroup group({.width = 2, .results = 2, .early_stopping = EarlyStopping::kTrue}, 3, EndOfBeam);
  Advance(&group, {{{10, -1}, {11, -2}, {kBeamEos, -3}, {12, -4}}});
  EXPECT_THAT(MembersOf(group), ElementsAre(Beam(0, 10), Beam(0, 11))) << "its end is the third";
  Advance(&group, {{{kBeamEos, -1}, {20, -2}, {21, -3}, {22, -9}}, {{23, -8}, {24, -9}}});
  EXPECT_THAT(MembersOf(group), ElementsAre(Beam(0, 20), Beam(0, 21)));
  EXPECT_FALSE(group.done()) << "one of two has ended";
  Advance(&group, {{{30, -0.25F}, {31, -4}}, {{kBeamStop, -0.25F}, {32, -4}}});
  ASSERT_TRUE(group.done()) << "max_tokens";
  const std::vector<BeamResult> results = group.Results();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_THAT(results[0].tokens, ElementsAre(10, kBeamEos));
  EXPECT_DOUBLE_EQ(results[0].score, -2.0 / 2);
  EXPECT_EQ(results[0].reason, FinishReason::kStopEos);
  EXPECT_THAT(results[1].tokens, ElementsAre(10, 20, 30));
  EXPECT_DOUBLE_EQ(results[1].score, -3.25 / 3) << "better than -4.25 / 3";
  EXPECT_EQ(results[1].reason, FinishReason::kLength);
}

TEST(BeamGroupTest, AStopIdAtTheLastTokenIsItsReason) {
  BeamGroup group({.width = 1, .results = 1}, 1, EndOfBeam);
  Advance(&group, {{{kBeamStop, -1}, {10, -2}, {11, -3}}});
  ASSERT_TRUE(group.done());
  EXPECT_EQ(group.Results()[0].reason, FinishReason::kStopToken);
}

// Two beams of two tokens have ended with -2.5 in sum; the best that runs has -2 after two tokens
// and may get ten.
BeamGroup Full(EarlyStopping early_stopping, float penalty) {
  BeamGroup group(
      {.width = 2, .results = 2, .length_penalty = penalty, .early_stopping = early_stopping}, 10,
      EndOfBeam);
  Advance(&group, {{{10, -1}, {11, -1}, {12, -9}}});
  Advance(&group, {{{kBeamEos, -1.5F}, {20, -2}, {21, -2}}, {{kBeamEos, -1.5F}, {20, -9}}});
  return group;
}

TEST(BeamGroupTest, EarlyStoppingSaysWhenASearchThatIsFullEnds) {
  EXPECT_TRUE(Full(EarlyStopping::kTrue, 1).done()) << "at once";
  EXPECT_TRUE(Full(EarlyStopping::kFalse, 1).done()) << "-3 / 2 is no better than -2.5 / 2";
  EXPECT_FALSE(Full(EarlyStopping::kNever, 1).done()) << "-3 / 10 would be";
  EXPECT_TRUE(Full(EarlyStopping::kNever, 0).done()) << "-3 can only get worse";
  EXPECT_TRUE(Full(EarlyStopping::kNever, -1).done()) << "-3 * 2 can only get worse";
}

TEST(BeamGroupTest, AHigherPenaltyFavoursLongAnswers) {
  for (const auto& [penalty, length] : {std::pair{0.0F, 2u}, std::pair{2.0F, 3u}}) {
    BeamGroup group({.width = 2, .results = 1, .length_penalty = penalty}, 3, EndOfBeam);
    Advance(&group, {{{10, -1}, {11, -1.5F}, {12, -9}}});
    Advance(&group, {{{kBeamEos, -1}, {20, -1.25F}, {21, -9}}, {{22, -3}, {23, -9}}});
    Advance(&group, {{{30, -0.5F}, {31, -9}}, {{32, -9}, {33, -9}}});
    ASSERT_TRUE(group.done());
    EXPECT_EQ(group.Results()[0].tokens.size(), length) << penalty;
  }
}

TEST(BeamGroupTest, OfEqualScoresTheOneThatFinishedFirstIsBetter) {
  BeamGroup group({.width = 2, .results = 2, .length_penalty = 0}, 3, EndOfBeam);
  Advance(&group, {{{10, -1}, {11, -1}, {12, -9}}});
  Advance(&group, {{{kBeamEos, -1}, {20, -1}, {21, -9}}, {{22, -3}, {23, -9}}});
  Advance(&group, {{{kBeamEos, 0}, {30, -9}}, {{31, -9}, {32, -9}}});
  const std::vector<BeamResult> results = group.Results();
  EXPECT_THAT(results[0].tokens, ElementsAre(10, kBeamEos));
  EXPECT_THAT(results[1].tokens, ElementsAre(10, 20, kBeamEos));
  EXPECT_DOUBLE_EQ(results[0].score, results[1].score);
}

TEST(BeamGroupDeathTest, TooFewCandidatesAreAMistakeOfTheCaller) {
  BeamGroup group({.width = 2, .results = 2}, 10, EndOfBeam);
  EXPECT_DEATH(Advance(&group, {{{10, -1}}}), "1 of 2 beams");
}

}  // namespace
}  // namespace baton
