// Rows that feed what somebody proposed, and draw behind each id of it.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "tests/common/sched/scheduler_fixture.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

class SchedulerProposeTest : public SchedulerTest {
 protected:
  static constexpr int32_t kMost = 4;

  SchedulerProposeTest() {
    options_.proposals = {.most = kMost, .batch = 16};
    options_.max_draws = options_.max_num_seqs + 16;
    // The answer to any prompt counts up from 500.
    model_.force = [](const kernels::SampleRow& row) {
      return std::optional<TokenId>(500 + static_cast<TokenId>(row.output.size()));
    };
  }

  // Proposes `ids` for whoever asks and can use one.
  void Propose(std::vector<TokenId> ids) {
    scheduler_->Propose([&](const ProposalRequest& asked) {
      asked_.push_back(asked);
      return std::span<const TokenId>(ids);
    });
  }
  // A sequence whose first token, 500, was drawn.
  SequenceId Begun(SequenceSpec spec) {
    const SequenceId id = Add(std::move(spec));
    EXPECT_TRUE(Step());
    return id;
  }
  std::vector<TokenId> TokensOf(SequenceId id) const {
    std::vector<TokenId> tokens;
    for (const SchedEvent& event : events_) {
      const auto* token = std::get_if<TokenEvent>(&event.what);
      if (token == nullptr || event.sequence != id) continue;
      EXPECT_EQ(token->index, static_cast<int32_t>(tokens.size()));
      tokens.push_back(token->token.token);
    }
    return tokens;
  }

  std::vector<ProposalRequest> asked_;
};

TEST_F(SchedulerProposeTest, TokensUpToTheFirstThatWasNotProposedCount) {
  Start(16);
  const SequenceId id = Begun(Spec(kLocal, 6, 20));
  Propose({501, 502, 7, 504});
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_EQ(asked_[0].sequence, id);
  EXPECT_EQ(asked_[0].history.size(), 7u);
  EXPECT_EQ(asked_[0].most, kMost);
  EXPECT_FALSE(asked_[0].drawing);
  const StepPlan plan = Plan();
  ASSERT_EQ(plan.rows.size(), 1u);
  EXPECT_THAT(plan.rows[0].tokens, ElementsAre(500, 501, 502, 7, 504));
  EXPECT_EQ(plan.rows[0].num_draws(), 5);
  EXPECT_EQ(plan.num_tokens, 5);
  EXPECT_EQ(plan.num_samples, 5);
  EXPECT_EQ(plan.shape.decode_tokens, 5);
  EXPECT_EQ(pool_->num_used(), 3) << "blocks for 11 tokens";
  Commit(plan);
  EXPECT_THAT(TokensOf(id), ElementsAre(500, 501, 502, 503));
  EXPECT_EQ(pool_->num_used(), 3) << "10 tokens";
  const SchedulerFigures figures = scheduler_->figures();
  EXPECT_EQ(figures.rows_proposed, 1u);
  EXPECT_EQ(figures.ids_proposed, 4u);
  EXPECT_EQ(figures.ids_accepted, 2u);
  EXPECT_EQ(figures.accepted_at[1], 1u);
  EXPECT_EQ(figures.accepted_at[2], 0u);
  EXPECT_EQ(figures.generated_tokens, 4u);
  Propose({});
  EXPECT_EQ(asked_.back().fed, 4);
  EXPECT_EQ(asked_.back().accepted, 2);
  StepAll();
  EXPECT_EQ(TokensOf(id).size(), 20u);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerProposeTest, AllOfThemAndOneMoreCountWhereAllAreDrawn) {
  Start(16);
  const SequenceId id = Begun(Spec(kLocal, 6, 20));
  Propose({501, 502, 503, 504, 505, 506});
  Step();
  EXPECT_THAT(TokensOf(id), ElementsAre(500, 501, 502, 503, 504, 505)) << "no more than four";
}

TEST_F(SchedulerProposeTest, BlocksThatOnlyRejectedIdsNeededGoBack) {
  Start(16);
  Begun(Spec(kLocal, 7, 20));  // two full blocks
  Propose({7, 7, 7, 7});
  const StepPlan plan = Plan();
  EXPECT_EQ(pool_->num_used(), 3);
  Commit(plan);
  EXPECT_EQ(pool_->num_used(), 3) << "the ninth token needs the third block";
  Propose({502, 7, 7, 7});
  Step();
  EXPECT_EQ(pool_->num_used(), 3);
  Propose({504, 505, 506, 7});
  const StepPlan grown = Plan();
  EXPECT_EQ(pool_->num_used(), 4);
  scheduler_->Cancel(SequenceId(1), now_);
  Commit(grown);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerProposeTest, RejectedIdsNeverEnterThePrefixCache) {
  Start(16, /*caching=*/true);
  const SequenceId id = Begun(Spec(kLocal, 7, 6));
  Propose({7, 7, 7, 7});
  Step();
  EXPECT_EQ(TokensOf(id).back(), 501);
  Cancel(id);
  SequenceSpec wrong = Spec(kLocal, 7, 3);
  wrong.prompt.insert(wrong.prompt.end(), {500, 7, 7, 7, 7, 8});
  const uint64_t before = scheduler_->figures().prefix_hits;
  Add(wrong);
  StepAll();
  EXPECT_EQ(scheduler_->figures().prefix_hits - before, 8u) << "the proven tokens only";
  ExpectAllBlocksBack();
}

TEST_F(SchedulerProposeTest, MaxTokensCutsProposals) {
  Start(16);
  const SequenceId id = Begun(Spec(kLocal, 6, 4));
  Propose({501, 502, 503, 504});
  EXPECT_EQ(asked_[0].most, 2) << "the last token is drawn, not fed";
  Step();
  EXPECT_THAT(TokensOf(id), ElementsAre(500, 501, 502, 503));
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kLength);
  const SequenceId last = Begun(Spec(kLocal, 6, 2));
  asked_.clear();
  Propose({501});
  EXPECT_TRUE(asked_.empty()) << "with one token left nothing is of use";
  Step();
  EXPECT_EQ(TokensOf(last).size(), 2u);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerProposeTest, AnIdThatWouldEndTheAnswerIsNotFed) {
  Start(16);
  SequenceSpec spec = Spec(kLocal, 6, 20);
  spec.stop.stop_token_ids = {503};
  const SequenceId id = Begun(spec);
  Propose({501, 502, 503, 504});
  const StepPlan plan = Plan();
  EXPECT_THAT(plan.rows[0].tokens, ElementsAre(500, 501, 502));
  Commit(plan);
  EXPECT_THAT(TokensOf(id), ElementsAre(500, 501, 502, 503));
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kStopToken);
  EXPECT_EQ(Last<FinishedEvent>(id)->stop_token, 503);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerProposeTest, WhereEosIsIgnoredItIsFedLikeAnyOther) {
  model_.force = [](const kernels::SampleRow& row) {
    const auto step = static_cast<TokenId>(row.output.size());
    return std::optional<TokenId>(step == 2 ? 2 : 500 + step);
  };
  Start(16);
  SequenceSpec spec = Spec(kLocal, 6, 20);
  spec.stop.eos_policy = EosPolicy::kIgnoreContinue;
  const SequenceId id = Begun(spec);
  Propose({501, 2, 503, 504});
  Step();
  EXPECT_THAT(TokensOf(id), ElementsAre(500, 501, 2, 503, 504, 505));
  StepAll();
  EXPECT_EQ(Last<FinishedEvent>(id)->natural_end_step, 3);
}

TEST_F(SchedulerProposeTest, EachDrawHasItsOwnHistory) {
  Start(16);
  SequenceSpec spec = Spec(kLocal, 6, 20);
  spec.stop.min_tokens = 3;
  spec.stop.length_control = {.target = 4, .strength = 1};
  spec.sampling.no_repeat_ngram_size = 2;
  const SequenceId id = Begun(spec);
  Propose({501, 500, 501});
  const StepPlan plan = Plan();
  const StepRow& row = plan.rows[0];
  ASSERT_EQ(row.num_draws(), 4);
  for (int32_t i = 0; i < 4; ++i) {
    const kernels::SampleRow& draw = row.draws[static_cast<size_t>(i)];
    EXPECT_EQ(draw.given.size(), static_cast<size_t>(i));
    EXPECT_EQ(SamplePosition(draw), 7u + static_cast<uint32_t>(i));
    EXPECT_EQ(draw.mask_stop_ids, i < 2) << "one token stands before the first of them";
    EXPECT_FLOAT_EQ(draw.eos_bias, LengthBias(*spec.stop.length_control, 2 + i));
    EXPECT_TRUE(draw.one_of_several);
  }
  EXPECT_THAT(row.draws[0].banned_ids, ElementsAre());
  EXPECT_THAT(row.draws[2].banned_ids, ElementsAre(501)) << "behind 500 again";
  EXPECT_THAT(row.draws[3].banned_ids, ElementsAre(500));
  Commit(plan);
  EXPECT_THAT(TokensOf(id), ElementsAre(500, 501, 502)) << "501 was right";
  const StepPlan next = Plan();
  EXPECT_THAT(next.rows[0].draws[0].banned_ids, ElementsAre()) << "502 has no follower";
  Commit(next);
}

TEST_F(SchedulerProposeTest, WithMoreSequencesEachGetsLessAndThenNothing) {
  options_.proposals = {.most = kMost, .batch = 7};
  Start(64);
  std::vector<int32_t> most;
  for (int32_t i = 0; i < 8; ++i) {
    Begun(Spec(kLocal, 6, 40));
    asked_.clear();
    Propose({1, 1, 1, 1});
    most.push_back(asked_.empty() ? 0 : asked_[0].most);
    const StepPlan plan = Plan();
    EXPECT_LE(plan.num_tokens, 7 + (i == 7 ? 1 : 0)) << "8 sequences need a token each";
    Commit(plan);
  }
  EXPECT_THAT(most, ElementsAre(4, 2, 1, 1, 1, 1, 0, 0));
}

TEST_F(SchedulerProposeTest, WhoeverHasToReadHistoriesIsToldOfAllThatMayBeAskedAbout) {
  options_.proposals = {.most = kMost, .batch = 7};
  options_.max_num_batched_tokens = 10;
  options_.limits.max_beams = 8;
  options_.limits.block_size = kBlockSize;
  options_.limits.eos_ids = options_.eos_ids;
  Start(64);
  const SequenceId running = Begun(Spec(kLocal, 6, 40));
  const SequenceId other = Begun(Spec(kLocal, 6, 40));
  const SequenceId reserved = Add(kReserved, 8, 40);
  const SequenceId reading = Add(kLocal, 30, 40);
  Add(kPrefill, 4, 1);  // draws one token
  SequenceSpec beams = Spec(kLocal, 4, 8);
  beams.beams = {.width = 2, .results = 1};
  beams.sampling.temperature = 0;
  Add(std::move(beams));  // goes on in many ways
  ASSERT_TRUE(Step());
  const auto all = scheduler_->Proposable();
  ASSERT_EQ(all.size(), 4u);
  for (const ProposalRequest& asked : all) {
    const bool decodes = asked.sequence == running || asked.sequence == other;
    EXPECT_TRUE(decodes || asked.sequence == reserved || asked.sequence == reading);
    EXPECT_EQ(asked.most, decodes ? 2 : 0) << "five of seven are left for two";
    EXPECT_EQ(asked.ahead, !decodes);
    if (asked.sequence == reading) {
      EXPECT_EQ(asked.history.size(), 30u);
    }
  }
  Propose({1, 1, 1, 1});
  for (const ProposalRequest& asked : asked_) EXPECT_EQ(asked.most, 2);
}

TEST_F(SchedulerProposeTest, NothingIsReadAheadWhereTooManyAnswersRun) {
  options_.proposals = {.most = kMost, .batch = 2};
  Start(64);
  Begun(Spec(kLocal, 6, 40));
  const SequenceId reserved = Add(kReserved, 8, 40);
  ASSERT_TRUE(Step());
  const auto is_ahead = [&] {
    for (const ProposalRequest& asked : scheduler_->Proposable()) {
      if (asked.sequence == reserved) return asked.ahead;
    }
    ADD_FAILURE();
    return false;
  };
  EXPECT_TRUE(is_ahead());
  Begun(Spec(kLocal, 6, 40));
  EXPECT_FALSE(is_ahead());
}

TEST_F(SchedulerProposeTest, NothingIsReadAheadForAnswersThatAreTooShortForProposals) {
  options_.proposals = {.most = kMost, .batch = 8};
  options_.max_num_batched_tokens = 10;
  Start(64);
  const SequenceId scored = Add(kLocal, 30, 2);
  const SequenceId answered = Add(kReserved, 8, 3);
  ASSERT_TRUE(Step());
  const auto all = scheduler_->Proposable();
  ASSERT_EQ(all.size(), 2u);
  for (const ProposalRequest& asked : all) {
    EXPECT_TRUE(asked.sequence == scored || asked.sequence == answered);
    EXPECT_EQ(asked.ahead, asked.sequence == answered) << "two tokens leave none to foretell";
  }
}

TEST_F(SchedulerProposeTest, PromptsAndDrawsAreBoundedBeforeProposals) {
  options_.max_num_batched_tokens = 6;
  options_.max_draws = 3;
  Start(64);
  Begun(Spec(kLocal, 6, 20));
  Propose({501, 502, 503, 504});
  const StepPlan drawn = Plan();
  EXPECT_EQ(drawn.num_samples, 3);
  Commit(drawn);
  Add(kLocal, 5, 20);
  Propose({504, 505, 506});
  const StepPlan filled = Plan();
  EXPECT_EQ(filled.num_tokens, 6);
  EXPECT_EQ(filled.shape.prefill_tokens, 5) << "nothing is left for proposals";
  Commit(filled);
}

TEST_F(SchedulerProposeTest, OnlyBlocksThatNobodyNeedsAreTaken) {
  options_.limits.max_model_len = 24;
  Start(6);
  const SequenceId first = Begun(Spec(kLocal, 7, 16));
  const SequenceId second = Begun(Spec(kLocal, 7, 16));
  EXPECT_EQ(pool_->num_free(), 2);
  Propose({7, 7, 7, 7});
  const StepPlan plan = Plan();
  for (const StepRow& row : plan.rows) EXPECT_LE(row.num_tokens(), 4);
  EXPECT_EQ(scheduler_->figures().preemptions, 0u);
  Commit(plan);
  for (int i = 0; i < 100; ++i) {
    Propose({7, 7, 7, 7});
    if (!Step()) break;
  }
  EXPECT_EQ(TokensOf(first).size(), 16u);
  EXPECT_EQ(TokensOf(second).size(), 16u);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerProposeTest, AProposalIsOfNoUseOnceItsHistoryHasGrown) {
  Start(16);
  const SequenceId id = Begun(Spec(kLocal, 6, 20));
  Propose({501, 502});
  Step();
  const StepPlan plan = Plan();
  EXPECT_EQ(plan.rows[0].num_tokens(), 1);
  Commit(plan);
  EXPECT_EQ(TokensOf(id).size(), 5u);
}

TEST_F(SchedulerProposeTest, TheEndOfARunawayDropsWhatWasDrawnBehindIt) {
  model_.force = [](const kernels::SampleRow&) { return std::optional<TokenId>(700); };
  model_.eos_prob = [](const kernels::SampleRow&) { return 0.001f; };
  options_.runaway = RunawayAction::kEnd;
  Start(300);
  std::vector<std::vector<TokenId>> answers;
  for (const bool proposes : {false, true}) {
    const SequenceId id = Begun(Spec(kLocal, 6, 600));
    for (int i = 0; i < 700; ++i) {
      if (proposes) Propose({700, 700, 700});
      if (!Step()) break;
    }
    EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kRunaway);
    answers.push_back(TokensOf(id));
  }
  EXPECT_EQ(answers[0], answers[1]);
  EXPECT_GT(scheduler_->figures().ids_accepted, 100u);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerProposeTest, WithTwoStepsOutASequenceSitsOutToBeVerified) {
  options_.max_steps_in_flight = 2;
  model_.max_in_flight = 2;
  Start(32);
  const SequenceId id = Add(Spec(kLocal, 6, 30));
  const SequenceId other = Add(kLocal, 6, 30);
  const StepPlan first = Plan();
  Commit(first);
  const StepPlan second = Plan();
  const auto ask = [&](std::vector<TokenId> ids) {
    scheduler_->Propose([&](const ProposalRequest& asked) {
      asked_.push_back(asked);
      return asked.sequence == id ? std::span<const TokenId>(ids) : std::span<const TokenId>();
    });
  };
  ask({501});
  EXPECT_TRUE(asked_[0].drawing);
  EXPECT_EQ(asked_[0].most, kMost + 1);
  const StepPlan ahead = Plan();
  EXPECT_EQ(ahead.rows.size(), 2u) << "nothing stands behind the token that is being drawn";
  Commit(second);
  ask({502, 503});
  const StepPlan others = Plan();
  ASSERT_EQ(others.rows.size(), 1u);
  EXPECT_EQ(others.rows[0].sequence, other);
  Commit(ahead);
  asked_.clear();
  ask({503, 504});
  ASSERT_FALSE(asked_.empty());
  EXPECT_FALSE(asked_[0].drawing);
  const StepPlan verifies = Plan();
  const auto row = std::ranges::find(verifies.rows, id, &StepRow::sequence);
  ASSERT_NE(row, verifies.rows.end());
  EXPECT_THAT(row->tokens, ElementsAre(502, 503, 504));
  Commit(others);
  asked_.clear();
  ask({1, 1});
  EXPECT_TRUE(std::ranges::none_of(asked_, [&](const auto& a) { return a.sequence == id; }));
  const StepPlan behind = Plan();
  EXPECT_TRUE(std::ranges::none_of(behind.rows, [&](const auto& r) { return r.sequence == id; }));
  Commit(verifies);
  EXPECT_THAT(TokensOf(id), ElementsAre(500, 501, 502, 503, 504, 505));
  Commit(behind);
  Cancel(id);
  Cancel(other);
}

TEST_F(SchedulerProposeTest, CancelAndPreemptionBesideAVerifyingRowLoseNothing) {
  options_.limits.max_model_len = 24;
  Start(8);
  std::vector<SequenceId> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(Add(kLocal, 6, 16));
  std::vector<TokenId> guess;
  for (int i = 0; i < 200; ++i) {
    scheduler_->Propose([&](const ProposalRequest& asked) {
      const auto next = static_cast<TokenId>(500 + asked.history.size() - 6);
      guess = {next, next + 1, i % 3 == 0 ? 1 : next + 2, next + 3};
      return std::span<const TokenId>(guess);
    });
    if (!Step()) break;
  }
  for (const SequenceId id : ids) {
    const std::vector<TokenId> tokens = TokensOf(id);
    ASSERT_EQ(tokens.size(), 16u);
    for (size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(tokens[i], 500 + static_cast<int>(i));
  }
  EXPECT_GT(scheduler_->figures().preemptions, 0u);
  EXPECT_GT(scheduler_->figures().ids_accepted, 5u);
  ExpectAllBlocksBack();
}

}  // namespace
}  // namespace baton
