#include "common/engine/draft_proposer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/common/engine/harness.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TokenId LastOf(const kernels::SampleRow& row) {
  return row.output.empty() ? row.prompt.back() : row.output.back();
}
// Counts up from the last id, so that what it foretells is plain; 9 ends an answer, and behind 92
// no logits are numbers.
TokenId CountUp(const kernels::SampleRow& row) { return 1 + LastOf(row); }
bool IsSpoilt(const kernels::SampleRow& row) { return LastOf(row) == 92; }

class DraftProposerTest : public testing::Test {
 protected:
  static constexpr int32_t kBlocks = 8;  // of 4 tokens

  DraftProposerTest() { Make({}); }
  void Make(DraftOptions options) {
    options.most = 4;
    options.eos_ids = {9};
    FakeModelOptions model;
    model.force = CountUp;
    model.spoils = IsSpoilt;
    auto runner = std::make_unique<FakeRunner>(arena_.kv(), model, control_);
    draft_ = std::make_unique<DraftProposer>(options, arena_.kv(), std::move(runner));
  }
  void Begin(uint64_t id, size_t prompt) {
    SequenceSpec spec;
    spec.prompt.assign(prompt, 1);
    draft_->Begin(SequenceId(id), spec);
  }
  static ProposalRequest Ask(uint64_t id, std::span<const TokenId> history, int32_t most = 4,
                             int64_t fed = 0, int64_t accepted = 0) {
    return {.sequence = SequenceId(id),
            .history = history,
            .most = most,
            .fed = fed,
            .accepted = accepted};
  }
  std::vector<TokenId> Foretold(const ProposalRequest& asked) {
    draft_->Prepare(std::span(&asked, 1));
    const auto ids = draft_->Propose(asked);
    return {ids.begin(), ids.end()};
  }
  int32_t used() const { return draft_->pool().num_used(); }

  FakeArena arena_{kBlocks, 4};
  std::shared_ptr<FakeRunnerControl> control_ = std::make_shared<FakeRunnerControl>();
  std::unique_ptr<DraftProposer> draft_;
};

TEST_F(DraftProposerTest, OnlyWhatTheHistoryDoesNotHoldIsComputedAgain) {
  Begin(1, 3);
  std::vector<TokenId> history = {1, 1, 20, 30};
  EXPECT_THAT(Foretold(Ask(1, history)), ElementsAre(31, 32, 33));
  EXPECT_EQ(draft_->figures().tokens, 4u + 2);
  history.insert(history.end(), {31, 32, 50});  // the last of them was wrong
  EXPECT_THAT(Foretold(Ask(1, history, 4, 3, 2)), ElementsAre(51, 52, 53));
  EXPECT_EQ(draft_->figures().tokens, 6u + 1 + 2) << "31 and 32 were fed before";
  history.insert(history.end(), {51, 52, 53, 54});  // all were right, and the last was never fed
  EXPECT_THAT(Foretold(Ask(1, history, 4, 6, 5)), ElementsAre(55, 56, 57, 58));
  EXPECT_EQ(draft_->figures().tokens, 9u + 2 + 3);
}

TEST_F(DraftProposerTest, WhatWasRejectedGivesItsBlocksBack) {
  Begin(1, 3);
  std::vector<TokenId> history = {1, 1, 20, 30};
  EXPECT_THAT(Foretold(Ask(1, history)), ElementsAre(31, 32, 33));
  EXPECT_EQ(used(), 2);
  history = {1, 1, 20, 30, 50};
  EXPECT_THAT(Foretold(Ask(1, history, 4, 3, 0)), IsEmpty()) << "all of it was wrong";
  EXPECT_EQ(used(), 2);
  Begin(2, 3);
  std::vector<TokenId> other = {1, 1, 20, 30};
  EXPECT_THAT(Foretold(Ask(2, other)), ElementsAre(31, 32, 33));
  EXPECT_EQ(used(), 2) << "who is not there any more keeps none";
  draft_->Forget(SequenceId(2));
  EXPECT_EQ(used(), 0);
}

TEST_F(DraftProposerTest, NothingIsComputedForWhoIsNotToBeForetold) {
  Begin(1, 3);
  std::vector<TokenId> history = {1, 1, 20, 30};
  EXPECT_THAT(Foretold(Ask(1, history, 0)), IsEmpty()) << "too many answers run";
  EXPECT_EQ(draft_->figures().steps, 0u);
  EXPECT_THAT(Foretold(Ask(1, history)), ElementsAre(31, 32, 33));
  const uint64_t steps = draft_->figures().steps;
  history.push_back(70);
  EXPECT_THAT(Foretold(Ask(1, history, 4, 3, 0)), IsEmpty()) << "it was wrong, and pauses";
  EXPECT_EQ(draft_->figures().steps, steps);
  history.insert(history.end(), {71, 72});
  EXPECT_THAT(Foretold(Ask(1, history, 4, 3, 0)), ElementsAre(73)) << "one id as a trial";
  EXPECT_EQ(draft_->figures().steps, steps + 1);
}

TEST_F(DraftProposerTest, AnIdThatEndsTheAnswerIsTheLastThing) {
  Begin(1, 3);
  std::vector<TokenId> history = {1, 1, 1, 6};
  EXPECT_THAT(Foretold(Ask(1, history)), ElementsAre(7, 8));
}

TEST_F(DraftProposerTest, NothingIsForetoldBehindLogitsThatAreNoNumbers) {
  Begin(1, 3);
  Begin(2, 3);
  const std::vector<TokenId> spoilt = {1, 1, 1, 90}, other = {1, 1, 1, 20};
  const std::vector<ProposalRequest> asked = {Ask(1, spoilt), Ask(2, other)};
  draft_->Prepare(asked);
  EXPECT_THAT(draft_->Propose(asked[0]), ElementsAre(91, 92));
  EXPECT_THAT(draft_->Propose(asked[1]), ElementsAre(21, 22, 23));
}

TEST_F(DraftProposerTest, AnEndThatIsForetoldIsDrawnOnceAndCountsAsWrongWhereTheAnswerGoesOn) {
  Begin(1, 3);
  std::vector<TokenId> history = {1, 1, 1, 8};
  EXPECT_THAT(Foretold(Ask(1, history)), IsEmpty()) << "9 ends it";
  EXPECT_EQ(draft_->figures().steps, 1u);
  EXPECT_FALSE(draft_->Prepare(std::vector{Ask(1, history)})) << "nothing new is known";
  ProposalRequest drawing = Ask(1, history);
  drawing.drawing = true;
  EXPECT_THAT(Foretold(drawing), IsEmpty()) << "nothing comes behind an end";
  history.push_back(20);
  EXPECT_THAT(Foretold(Ask(1, history)), IsEmpty()) << "it was wrong, and pauses";
  EXPECT_EQ(draft_->figures().steps, 1u);
  history.insert(history.end(), {21, 22});
  EXPECT_THAT(Foretold(Ask(1, history)), ElementsAre(23)) << "one id as a trial";
}

TEST_F(DraftProposerTest, WhoIsAlwaysDrawingIsReadAllTheSame) {
  Make({.prompt_tokens = 4});
  Begin(1, 13);
  const std::vector<TokenId> history(13, 1);
  ProposalRequest drawing = Ask(1, history);
  drawing.drawing = true;
  EXPECT_THAT(Foretold(drawing), IsEmpty());
  EXPECT_THAT(Foretold(drawing), IsEmpty()) << "5 of 13 are left";
  EXPECT_GT(Foretold(drawing).size(), 1u) << "what is left is read in one step";
  EXPECT_EQ(draft_->figures().tokens, 12u);
}

TEST_F(DraftProposerTest, HistoriesAreReadInPiecesAndAllSequencesTogether) {
  Make({.prompt_tokens = 6});
  Begin(1, 13);
  Begin(2, 3);
  const std::vector<TokenId> prompt(13, 1);
  const std::vector<TokenId> history = {1, 1, 20, 30};
  ProposalRequest ahead = Ask(1, prompt, 0);
  ahead.ahead = true;
  for (const uint64_t read : {6, 12, 13}) {
    const std::vector<ProposalRequest> asked = {ahead, Ask(2, history)};
    EXPECT_TRUE(draft_->Prepare(asked));
    EXPECT_THAT(draft_->Propose(asked[1]), ElementsAre(31, 32, 33));
    EXPECT_EQ(draft_->figures().tokens, 4 + 2 + read);
  }
  EXPECT_EQ(draft_->figures().steps, 3u + 2) << "three of them for the three ids";
  EXPECT_FALSE(draft_->Prepare(std::vector{ahead, Ask(2, history)})) << "all of it is done";
}

TEST_F(DraftProposerTest, WhoWaitsForATokenSitsOutIfTheDraftKnowsItsHistory) {
  Make({.prompt_tokens = 4});
  Begin(1, 9);
  std::vector<TokenId> history(9, 1);
  ProposalRequest drawing = Ask(1, history, 4);
  drawing.drawing = true;
  EXPECT_THAT(Foretold(drawing), IsEmpty()) << "nothing of it was read";
  ProposalRequest ahead = Ask(1, history, 0);
  ahead.ahead = true;
  for (int i = 0; i < 3; ++i) draft_->Prepare(std::span(&ahead, 1));
  EXPECT_GT(Foretold(drawing).size(), 1u);
  drawing.fed = 3;
  EXPECT_THAT(Foretold(drawing), IsEmpty()) << "what it said was wrong";
}

TEST_F(DraftProposerTest, ProposalsGetNoBlockThatAHistoryMayNeed) {
  Begin(1, 11);
  Begin(2, 14);
  std::vector<TokenId> a(12, 1), b(15, 1);  // three blocks and four, of eight
  a.back() = b.back() = 20;
  std::vector<ProposalRequest> both = {Ask(1, a, 0), Ask(2, b, 0)};
  both[0].ahead = both[1].ahead = true;
  draft_->Prepare(both);
  EXPECT_EQ(used(), 7);
  both = {Ask(1, a), Ask(2, b)};
  draft_->Prepare(both);
  EXPECT_THAT(draft_->Propose(both[0]), ElementsAre(21)) << "drawn behind its last block";
  EXPECT_THAT(draft_->Propose(both[1]), ElementsAre(21, 22)) << "one stands in its last block";
  EXPECT_EQ(used(), 7);
  EXPECT_EQ(draft_->figures().dropped, 0u);
}

TEST_F(DraftProposerTest, WhoIsPreemptedIsReadAnew) {
  Begin(1, 3);
  const std::vector<TokenId> history = {1, 1, 20, 30};
  EXPECT_THAT(Foretold(Ask(1, history)), ElementsAre(31, 32, 33));
  draft_->Prepare({});
  EXPECT_EQ(used(), 0);
  ProposalRequest ahead = Ask(1, history, 0);
  ahead.ahead = true;
  EXPECT_TRUE(draft_->Prepare(std::span(&ahead, 1)));
  EXPECT_EQ(used(), 1);
  EXPECT_THAT(Foretold(Ask(1, history)), ElementsAre(31, 32, 33));
}

TEST_F(DraftProposerTest, WhoFindsNoBlockGivesItsOwnUpAndBeginsAnewWhenThereIsRoom) {
  Begin(1, 3);
  Begin(2, 3);
  std::vector<TokenId> a(14, 1), b(13, 1);  // four blocks each: the pool is full
  a.back() = b.back() = 20;
  const auto both = [&](int64_t fed, int64_t accepted) {
    return std::vector{Ask(1, a, 1, fed, accepted), Ask(2, b, 1, fed, accepted)};
  };
  draft_->Prepare(both(0, 0));
  EXPECT_THAT(draft_->Propose(Ask(1, a, 1)), ElementsAre(21));
  EXPECT_THAT(draft_->Propose(Ask(2, b, 1)), IsEmpty()) << "the first may need the block";
  EXPECT_EQ(used(), 4);
  for (TokenId id = 21; id < 40; ++id) a.push_back(id);
  draft_->Prepare(both(1, 1));
  EXPECT_THAT(draft_->Propose(Ask(1, a, 1)), IsEmpty()) << "nine blocks";
  EXPECT_EQ(draft_->figures().dropped, 1u);
  EXPECT_THAT(draft_->Propose(Ask(2, b, 1)), ElementsAre(21)) << "now there is room";
  draft_->Forget(SequenceId(2));
  EXPECT_EQ(draft_->pool().num_free(), kBlocks);
  EXPECT_TRUE(draft_->pool().IsConsistent());
}

}  // namespace
}  // namespace baton
