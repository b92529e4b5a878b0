// Two steps in flight: what is planned behind a token that is still being drawn, and what happens
// to its row and its blocks.
#include <deque>
#include <functional>

#include "tests/common/sched/scheduler_fixture.h"

namespace baton {
namespace {

// Plans are committed by hand; the fake model computes a step when it is committed.
class SchedulerOverlapTest : public SchedulerTest {
 protected:
  SchedulerOverlapTest() { options_.max_steps_in_flight = 2; }

  // Every draw behind `step` generated tokens gives `token`.
  void Force(size_t step, TokenId token) {
    model_.force = [=](const kernels::SampleRow& row) -> std::optional<TokenId> {
      return row.output.size() == step ? std::optional(token) : std::nullopt;
    };
  }
  static const StepRow* RowOf(const StepPlan& plan, SequenceId id) {
    for (const StepRow& row : plan.rows) {
      if (row.sequence == id) return &row;
    }
    return nullptr;
  }
  // Keeps two steps in flight until nothing runs. `see` is shown every plan.
  void RunAll(const std::function<void(const StepPlan&)>& see = nullptr) {
    std::deque<StepPlan> out;
    for (int i = 0; i < 10000; ++i) {
      StepPlan plan = Plan();
      if (see != nullptr) see(plan);
      const bool planned = !plan.empty();
      if (planned) out.push_back(std::move(plan));
      if (out.empty()) return;
      if (planned && out.size() < 2) continue;
      Commit(out.front());
      out.pop_front();
    }
  }
};

TEST_F(SchedulerOverlapTest, ARowFeedsTheTokenThatIsStillBeingDrawn) {
  Start(8);
  SequenceSpec spec = Spec(kLocal, 7, 5);
  spec.stop.min_tokens = 2;
  const SequenceId id = Add(spec);
  const StepPlan first = Plan();
  EXPECT_EQ(first.rows[0].num_tokens(), 7);
  EXPECT_TRUE(first.rows[0].draws[0].mask_stop_ids);
  const StepPlan second = Plan();
  ASSERT_EQ(second.rows.size(), 1u);
  const StepRow& row = second.rows[0];
  EXPECT_TRUE(row.feeds_sampled);
  EXPECT_TRUE(row.tokens.empty());
  EXPECT_EQ(row.num_tokens(), 1);
  EXPECT_EQ(row.slot, first.rows[0].slot);
  EXPECT_EQ(row.first_position, 7);
  EXPECT_EQ(row.blocks.size(), 2u);
  EXPECT_TRUE(row.draws[0].pending_output);
  EXPECT_EQ(SamplePosition(row.draws[0]), 8u);
  EXPECT_TRUE(row.draws[0].mask_stop_ids) << "the second token is still below min_tokens";
  EXPECT_EQ(second.shape.decode_sequences, 1);
  Commit(first);
  const StepPlan third = Plan();
  EXPECT_FALSE(third.rows[0].draws[0].mask_stop_ids) << "two tokens stand before the third";
  EXPECT_EQ(third.rows[0].blocks.size(), 3u);
  Commit(second);
  Commit(third);
  RunAll();
  EXPECT_EQ(Count<TokenEvent>(id), 5);
  EXPECT_EQ(scheduler_->figures().rows_discarded, 0u);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerOverlapTest, WhatAPlanSpansStaysWhileTheOneBeforeIsCommitted) {
  options_.block_size = 1;
  Start(60);
  Add(Spec(kLocal, 3, 40));
  StepPlan oldest = Plan();
  for (int i = 0; i < 15; ++i) {
    const StepPlan next = Plan();
    const StepRow& row = next.rows[0];
    const std::vector<TokenId> output(row.draws[0].output.begin(), row.draws[0].output.end());
    const std::vector<BlockId> blocks(row.blocks.begin(), row.blocks.end());
    const auto* where = row.blocks.data();
    const auto* tokens = row.draws[0].prompt.data();
    scheduler_->Commit(oldest, {{SampledToken{.token = 50 + i}}}, now_);
    const StepPlan behind = Plan();
    EXPECT_EQ(behind.rows[0].blocks.data(), where);
    EXPECT_EQ(behind.rows[0].draws[0].prompt.data(), tokens);
    EXPECT_EQ(std::vector<TokenId>(row.draws[0].output.begin(), row.draws[0].output.end()), output);
    EXPECT_EQ(std::vector<BlockId>(row.blocks.begin(), row.blocks.end()), blocks);
    scheduler_->Commit(next, {{SampledToken{.token = 90}}}, now_);
    oldest = behind;
  }
  scheduler_->Commit(oldest, {{SampledToken{.token = 2}}}, now_);
}

TEST_F(SchedulerOverlapTest, NothingIsPlannedPastTheLastTokenByNumber) {
  Start(5);
  const SequenceId id = Add(kLocal, 18, 2);  // fills the pool to its last position
  const StepPlan first = Plan();
  const StepPlan second = Plan();
  ASSERT_EQ(second.rows.size(), 1u);
  Commit(first);
  EXPECT_TRUE(Plan().empty());
  Commit(second);
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kLength);
  EXPECT_EQ(scheduler_->figures().rows_discarded, 0u);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerOverlapTest, APrefillDrawsOnceAndChunksFollowEachOther) {
  options_.max_prefill_tokens = 5;
  Start(8);
  const SequenceId id = Add(kPrefill, 12, 5);
  const StepPlan first = Plan();
  const StepPlan second = Plan();
  EXPECT_EQ(second.rows[0].first_position, 5);
  EXPECT_EQ(second.rows[0].tokens[0], 15);
  EXPECT_EQ(Count<BlocksProven>(id), 0) << "proven at commit";
  Commit(first);
  EXPECT_EQ(Last<BlocksProven>(id)->blocks.size(), 1u);
  const StepPlan third = Plan();
  EXPECT_EQ(third.rows[0].num_draws(), 1);
  Commit(second);
  EXPECT_TRUE(Plan().empty());
  Commit(third);
  EXPECT_TRUE(Last<BlocksProven>(id)->last);
  EXPECT_EQ(scheduler_->figures().prefill_chunks, 3u);
  ReturnLease(id);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerOverlapTest, ARowBehindTheEndIsDiscardedAndItsBlocksStayThatLong) {
  Force(1, 2);
  Start(8);
  const SequenceId id = Add(kLocal, 4, 9);
  const StepPlan first = Plan();
  const StepPlan second = Plan();
  Commit(first);
  const StepPlan third = Plan();  // behind the EOS
  ASSERT_NE(RowOf(third, id), nullptr);
  Commit(second);
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kStopEos);
  EXPECT_EQ(Count<TokenEvent>(id), 2);
  EXPECT_EQ(pool_->num_used(), 2) << "the device still writes there";
  EXPECT_TRUE(scheduler_->TakeForgotten().empty());
  const SequenceId next = Add(kLocal, 4, 1);
  const StepPlan fourth = Plan();
  EXPECT_EQ(RowOf(fourth, id), nullptr);
  EXPECT_EQ(RowOf(fourth, next)->slot, third.rows[0].slot) << "slots follow the order of steps";
  Commit(third);
  EXPECT_EQ(Count<TokenEvent>(id), 2);
  EXPECT_EQ(scheduler_->figures().rows_discarded, 1u);
  EXPECT_EQ(scheduler_->TakeForgotten(), std::vector<SequenceId>{id});
  Commit(fourth);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerOverlapTest, NgramsSitOutAStepAndOthersDoNot) {
  Start(16);
  SequenceSpec spec = Spec(kLocal, 4, 5);
  spec.sampling.no_repeat_ngram_size = 2;
  const SequenceId ngram = Add(spec);
  const SequenceId plain = Add(kLocal, 4, 5);
  const StepPlan first = Plan();
  const StepPlan second = Plan();
  EXPECT_EQ(RowOf(second, ngram), nullptr);
  ASSERT_NE(RowOf(second, plain), nullptr);
  EXPECT_NE(RowOf(first, ngram)->slot, RowOf(first, plain)->slot);
  Commit(first);
  const StepPlan third = Plan();
  ASSERT_NE(RowOf(third, ngram), nullptr);
  EXPECT_FALSE(RowOf(third, ngram)->feeds_sampled);
  Commit(second);
  Commit(third);
  RunAll();
  EXPECT_EQ(Count<TokenEvent>(ngram), 5);
  EXPECT_EQ(Count<TokenEvent>(plain), 5);
}

TEST_F(SchedulerOverlapTest, AGuessTakesNoVictim) {
  Start(5);
  const SequenceId old = Add(kLocal, 8, 9);
  const SequenceId young = Add(kLocal, 8, 5);
  const StepPlan first = Plan();  // four blocks
  const StepPlan second = Plan();
  ASSERT_NE(RowOf(second, old), nullptr);
  EXPECT_EQ(RowOf(second, young), nullptr) << "its next token may be the end";
  EXPECT_EQ(scheduler_->figures().preemptions, 0u);
  Commit(first);
  Commit(second);
  RunAll();
  EXPECT_GE(scheduler_->figures().preemptions, 1u);
  EXPECT_EQ(Count<TokenEvent>(old), 9);
  EXPECT_EQ(Count<TokenEvent>(young), 5);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerOverlapTest, AVictimWithARowOutSitsOutAStepFirst) {
  Start(6);
  const SequenceId old = Add(kLocal, 7, 13);
  const SequenceId young = Add(kLocal, 5, 15);
  int sat_out = 0;
  RunAll([&](const StepPlan& plan) {
    scheduler_->Visit([&](const LiveSequence& sequence) {
      if (!sequence.held_back) return;
      ++sat_out;
      EXPECT_EQ(sequence.id, young);
      EXPECT_EQ(sequence.rows_out, 1) << "else it would have been taken at once";
      EXPECT_EQ(RowOf(plan, young), nullptr);
      EXPECT_EQ(sequence.preemptions, 0);
    });
  });
  EXPECT_EQ(sat_out, 1);
  EXPECT_EQ(Last<FinishedEvent>(old)->preemptions, 0);
  EXPECT_EQ(Last<FinishedEvent>(young)->preemptions, 1);
  EXPECT_EQ(Count<TokenEvent>(old), 13);
  EXPECT_EQ(Count<TokenEvent>(young), 15);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerOverlapTest, CancelWithTwoRowsOutEndsAtTheFirstCommitAndFreesAtTheSecond) {
  Start(8);
  const SequenceId id = Add(kLocal, 4, 9);
  const StepPlan first = Plan();
  const StepPlan second = Plan();
  Cancel(id);
  EXPECT_EQ(Count<FinishedEvent>(id), 0);
  Commit(first);
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kAborted);
  EXPECT_EQ(Count<TokenEvent>(id), 0);
  EXPECT_EQ(pool_->num_used(), 2);
  EXPECT_TRUE(Plan().empty());
  Commit(second);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerOverlapTest, ADeadlineWithTwoRowsOutIsTheSame) {
  Start(8);
  SequenceSpec spec = Spec(kLocal, 4, 9);
  spec.deadline = now_ + std::chrono::milliseconds(5);
  const SequenceId id = Add(spec);
  const StepPlan first = Plan();
  const StepPlan second = Plan();
  now_ += std::chrono::milliseconds(5);
  Expire();
  Commit(first);
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kDeadline);
  Commit(second);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerOverlapTest, ALeaseThatComesBackBeforeTheLastChunkFreesNothingYet) {
  options_.max_prefill_tokens = 4;
  Start(8);
  const SequenceId id = Add(kPrefill, 16, 5);
  const StepPlan first = Plan();
  const StepPlan second = Plan();
  Commit(first);
  ASSERT_EQ(Count<BlocksProven>(id), 1);
  const StepPlan third = Plan();
  Cancel(id);
  Commit(second);
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kAborted);
  EXPECT_EQ(Count<DetachEvent>(id), 1);
  EXPECT_EQ(pool_->num_quarantined(), 4) << "the lent ones, and those that the step writes";
  ReturnLease(id);
  EXPECT_EQ(pool_->num_quarantined(), 4);
  Commit(third);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerOverlapTest, TheTokensAreThoseOfOneStepAtATime) {
  model_.eos_permille = 60;
  const auto run = [&](int32_t in_flight) {
    scheduler_.reset();
    cache_.reset();
    events_.clear();
    last_id_ = 0;
    options_.max_steps_in_flight = in_flight;
    Start(14, /*caching=*/true);
    std::vector<std::vector<TokenId>> tokens(8);
    for (int i = 0; i < 8; ++i) {
      SequenceSpec spec = Spec(kLocal, 5 + i, 20);
      spec.sampling.seed = static_cast<uint64_t>(i);
      spec.sampling.repetition_penalty = i % 2 == 0 ? 1.3f : 1.0f;
      spec.stop.min_tokens = i;
      Add(spec);
    }
    in_flight == 1 ? StepAll() : RunAll();
    for (const SchedEvent& event : events_) {
      const auto* token = std::get_if<TokenEvent>(&event.what);
      if (token == nullptr) continue;
      tokens[event.sequence.value() - 1].push_back(token->token.token);
    }
    ExpectAllBlocksBack();
    return tokens;
  };
  const auto plain = run(1);
  EXPECT_EQ(scheduler_->figures().rows_ahead, 0u);
  EXPECT_EQ(run(2), plain);
  EXPECT_GT(scheduler_->figures().rows_ahead, 20u);
  EXPECT_GT(scheduler_->figures().rows_discarded, 0u);
  EXPECT_GT(scheduler_->figures().preemptions, 0u);
}

using SchedulerOverlapDeathTest = SchedulerOverlapTest;

TEST_F(SchedulerOverlapDeathTest, ThirdPlansAndCommitsOutOfOrderAreBugs) {
  Start(8);
  Add(kLocal, 4, 9);
  const StepPlan first = Plan();
  const StepPlan second = Plan();
  EXPECT_DEATH(Plan(), "step 1 was not committed");
  EXPECT_DEATH(scheduler_->Commit(second, {}, now_), "step 2 is not the oldest that is out");
  Commit(first);
  Commit(second);
}

}  // namespace
}  // namespace baton
