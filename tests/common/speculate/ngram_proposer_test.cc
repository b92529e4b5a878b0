#include "common/speculate/ngram_proposer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<TokenId> kText = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3};

TEST(NgramProposerTest, EachSequenceHasItsOwnHistoryAndPace) {
  NgramProposer proposer({}, 8);
  const SequenceId a(1), b(2);
  EXPECT_THAT(proposer.Propose(a, kText, 8, 0, 0, 0), ElementsAre(4, 5, 6));
  EXPECT_THAT(proposer.Propose(b, std::vector<TokenId>{1, 2, 3}, 8, 0, 0, 0), IsEmpty());
  std::vector<TokenId> longer = kText;
  longer.insert(longer.end(), {4, 5, 6, 7});
  EXPECT_THAT(proposer.Propose(a, longer, 8, 0, 3, 3), ElementsAre(8, 9, 1, 2, 3, 4));
  EXPECT_EQ(proposer.live(), 2u);
  proposer.Forget(a);
  proposer.Forget(SequenceId(3));
  EXPECT_EQ(proposer.live(), 1u);
}

TEST(NgramProposerTest, GivesNoMoreThanAsked) {
  NgramProposer proposer({}, 8);
  EXPECT_THAT(proposer.Propose(SequenceId(1), kText, 2, 0, 0, 0), ElementsAre(4, 5));
}

TEST(NgramProposerTest, SpeaksOfWhatStandsBehindATokenThatIsBeingDrawn) {
  NgramProposer proposer({}, 8);
  EXPECT_THAT(proposer.Propose(SequenceId(1), kText, 8, 1, 0, 0), ElementsAre(4, 5, 6, 7));
}

// While a token is drawn the sequence sits a step out for what may come behind it.
TEST(NgramProposerTest, PausesAfterAStepThatWasSatOutInVain) {
  NgramProposer proposer({}, 8);
  std::vector<TokenId> text = kText;
  ASSERT_THAT(proposer.Propose(SequenceId(1), text, 8, 1, 0, 0), ElementsAre(4, 5, 6, 7));
  text.push_back(20);
  EXPECT_THAT(proposer.Propose(SequenceId(1), text, 8, 0, 0, 0), IsEmpty());
  text.push_back(1);
  text.push_back(2);  // it pauses behind 15 tokens
  EXPECT_THAT(proposer.Propose(SequenceId(1), text, 8, 1, 0, 0), ElementsAre(3, 20)) << "a trial";
  text.push_back(30);
  text.push_back(1);
  text.push_back(2);
  EXPECT_THAT(proposer.Propose(SequenceId(1), text, 8, 1, 0, 0), IsEmpty())
      << "in vain also where nobody asked behind the token that was drawn";
}

TEST(NgramProposerTest, AStepThatWasSatOutForProposalsIsNoFailure) {
  NgramProposer proposer({}, 8);
  std::vector<TokenId> text = kText;
  ASSERT_THAT(proposer.Propose(SequenceId(1), text, 8, 1, 0, 0), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(proposer.Propose(SequenceId(1), text, 8, 1, 0, 0), ElementsAre(4, 5, 6, 7))
      << "asked again before the token was drawn";
  text.push_back(4);
  EXPECT_THAT(proposer.Propose(SequenceId(1), text, 8, 0, 0, 0), ElementsAre(5, 6, 7));
  text.insert(text.end(), {5, 6, 7, 8});
  EXPECT_THAT(proposer.Propose(SequenceId(1), text, 8, 1, 3, 3), ElementsAre(9, 1, 2, 3, 4, 5, 6));
}

TEST(NgramProposerTest, PausesAfterProposalsOfWhichNothingWasDrawn) {
  NgramProposer proposer({}, 8);
  EXPECT_THAT(proposer.Propose(SequenceId(1), kText, 8, 0, 0, 0), ElementsAre(4, 5, 6));
  std::vector<TokenId> longer = kText;
  longer.insert(longer.end(), {3, 1, 2, 3});
  EXPECT_THAT(proposer.Propose(SequenceId(1), longer, 8, 0, 3, 0), IsEmpty());
  longer.insert(longer.end(), {7, 1, 2, 3});
  EXPECT_THAT(proposer.Propose(SequenceId(1), longer, 8, 0, 3, 0), ElementsAre(7))
      << "the latest, one at first";
}

}  // namespace
}  // namespace baton
