// What becomes of the KV of those who give way: who is swapped and who computes again, in which
// order blocks are copied, and that nothing of a second arena is lost.
#include <algorithm>
#include <deque>
#include <tuple>

#include "tests/common/sched/scheduler_fixture.h"

namespace baton {
namespace {

class SchedulerSwapTest : public SchedulerTest {
 protected:
  // Copying a block costs a quarter of computing its tokens.
  static constexpr double kAnyTime = 1e10;
  static constexpr SwapCosts kCheap = {
      .out_s = 0.25, .in_s = 0.25, .token_s = 0.5, .step_s = kAnyTime};

  void StartSwapping(int32_t blocks, int32_t host_blocks, bool caching = false,
                     const SwapCosts& costs = kCheap) {
    Start(blocks, caching, host_blocks);
    scheduler_->set_swap_costs(costs);
  }
  std::vector<TokenId> TokensOf(SequenceId id) const {
    std::vector<TokenId> tokens;
    for (const SchedEvent& event : events_) {
      const auto* token = std::get_if<TokenEvent>(&event.what);
      if (token != nullptr && event.sequence == id) tokens.push_back(token->token.token);
    }
    return tokens;
  }
  const LiveSequence* Live(SequenceId id) const {
    const LiveSequence* found = nullptr;
    scheduler_->Visit([&](const LiveSequence& sequence) {
      if (sequence.id == id) found = &sequence;
    });
    return found;
  }
  // Steps until the youngest of those that run has given way, and returns the plan behind that.
  StepPlan RunUntilPreempted(SequenceId id) {
    for (int i = 0; i < 1000; ++i) {
      StepPlan plan = Plan();
      if (StateOf(id) == SequenceState::kPreempted) return plan;
      if (plan.empty()) break;
      Commit(plan);
    }
    ADD_FAILURE() << "nobody gave way";
    return {};
  }
};

TEST_F(SchedulerSwapTest, AVictimComesBackWithoutComputingAnythingAgain) {
  StartSwapping(6, 8);
  const SequenceId first = Add(kLocal, 6, 14);
  const SequenceId second = Add(kLocal, 5, 12);
  const StepPlan plan = RunUntilPreempted(second);
  const int32_t computed = Live(second)->swapped->computed;
  EXPECT_EQ(plan.swaps_out.size(), static_cast<size_t>(BlocksFor(computed, kBlockSize)));
  EXPECT_EQ(host_pool_->num_used(), std::ssize(plan.swaps_out));
  EXPECT_EQ(scheduler_->figures().queued_prompt_tokens, 1) << "the token that was drawn last";
  Commit(plan);
  StepPlan back = Plan();
  while (StateOf(second) == SequenceState::kPreempted) {
    Commit(back);
    back = Plan();
  }
  ASSERT_EQ(back.swaps_in.size(), plan.swaps_out.size());
  for (size_t i = 0; i < back.swaps_in.size(); ++i) {
    EXPECT_EQ(back.swaps_in[i].from, plan.swaps_out[i].to) << "in the order of the sequence";
    EXPECT_EQ(back.swaps_in[i].to, Live(second)->table[static_cast<int32_t>(i)].value());
  }
  const auto row = std::ranges::find(back.rows, second, &StepRow::sequence);
  ASSERT_NE(row, back.rows.end());
  EXPECT_EQ(row->first_position, computed);
  EXPECT_EQ(row->num_tokens(), 1);
  EXPECT_GT(host_pool_->num_used(), 0) << "until the step that reads it is committed";
  Commit(back);
  EXPECT_EQ(host_pool_->num_used(), 0);
  StepAll();
  EXPECT_EQ(Count<TokenEvent>(first), 14);
  EXPECT_EQ(Count<TokenEvent>(second), 12);
  const SchedulerFigures figures = scheduler_->figures();
  EXPECT_EQ(figures.swaps, figures.preemptions);
  EXPECT_EQ(figures.blocks_swapped_in, figures.blocks_swapped_out);
  EXPECT_EQ(figures.prompt_tokens_computed, 11u);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerSwapTest, TokensAreThoseOfWhoWasNeverPreemptedAndOfWhoComputedAgain) {
  std::vector<std::vector<std::vector<TokenId>>> runs;
  for (const auto& [blocks, host] : {std::pair{40, 0}, {6, 0}, {6, 8}}) {
    scheduler_.reset();
    cache_.reset();
    events_.clear();
    last_id_ = 0;
    host_pool_.reset();
    StartSwapping(blocks, host, /*caching=*/blocks == 6);
    std::vector<SequenceId> ids;
    for (int i = 0; i < 4; ++i) ids.push_back(Add(kLocal, 3 + i, 14));
    StepAll();
    auto& run = runs.emplace_back();
    for (const SequenceId id : ids) run.push_back(TokensOf(id));
    EXPECT_EQ(scheduler_->figures().preemptions > 0, blocks == 6);
    EXPECT_EQ(scheduler_->figures().swaps > 0, host > 0);
    ExpectAllBlocksBack();
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_EQ(runs[0], runs[2]);
}

TEST_F(SchedulerSwapTest, WhatCostsLessIsTaken) {
  // A block of four tokens costs 2 s to compute.
  for (const auto& [copying, swaps] : {std::pair{0.9, true}, {1.1, false}}) {
    scheduler_.reset();
    host_pool_.reset();
    StartSwapping(6, 8, false,
                  {.out_s = copying, .in_s = copying, .token_s = 0.5, .step_s = kAnyTime});
    const SequenceId first = Add(kLocal, 8, 12);
    const SequenceId second = Add(kLocal, 7, 12);
    RunUntilPreempted(second);
    EXPECT_EQ(Live(second)->computed, 0);
    EXPECT_EQ(Live(second)->swapped.has_value(), swaps) << copying;
    EXPECT_EQ(scheduler_->figures().swaps, swaps ? 1u : 0u);
    EXPECT_EQ(scheduler_->figures().swaps_without_room, 0u);
    Cancel(first);
    Cancel(second);
  }
}

TEST_F(SchedulerSwapTest, WhoseCopyHoldsAStepUpForTooLongComputesAgain) {
  // Three blocks or two.
  for (const auto& [out, in, swaps] :
       {std::tuple{0.1, 0.1, true}, {0.3, 0.1, false}, {0.1, 0.3, false}}) {
    scheduler_.reset();
    host_pool_.reset();
    StartSwapping(6, 8, false, {.out_s = out, .in_s = in, .token_s = 100, .step_s = 0.5});
    const SequenceId first = Add(kLocal, 8, 12);
    const SequenceId second = Add(kLocal, 7, 12);
    const StepPlan plan = RunUntilPreempted(second);
    EXPECT_EQ(Live(second)->swapped.has_value(), swaps) << out << " " << in;
    EXPECT_EQ(plan.swaps_out.empty(), !swaps);
    Cancel(first);
    Cancel(second);
    Commit(plan);
  }
}

TEST_F(SchedulerSwapTest, AStepCopiesNoMoreThanItsTimeAllows) {
  std::vector<size_t> most;
  options_.max_num_batched_tokens = options_.max_prefill_tokens = 1;
  for (const double step_s : {kAnyTime, 0.75}) {
    scheduler_.reset();
    host_pool_.reset();
    StartSwapping(9, 12, false, {.out_s = 0.25, .in_s = 0.25, .token_s = 100, .step_s = step_s});
    Add(kLocal, 8, 20);
    Add(kLocal, 7, 12);
    Add(kLocal, 6, 12);
    most.push_back(0);
    for (StepPlan plan = Plan(); !plan.empty(); plan = Plan()) {
      most.back() = std::max({most.back(), plan.swaps_in.size(), plan.swaps_out.size()});
      Commit(plan);
    }
    EXPECT_GT(scheduler_->figures().blocks_swapped_in, 0u);
    ExpectAllBlocksBack();
  }
  EXPECT_GE(most[0], 4u);
  EXPECT_LE(most[1], 3u);
}

TEST_F(SchedulerSwapTest, WhileNobodyKnowsWhatATokenTakesItIsCopied) {
  StartSwapping(6, 8, false, {.out_s = 1e9, .in_s = 1e9, .token_s = 0, .step_s = kAnyTime});
  Add(kLocal, 8, 12);
  const SequenceId second = Add(kLocal, 7, 12);
  RunUntilPreempted(second);
  EXPECT_TRUE(Live(second)->swapped.has_value());
}

TEST_F(SchedulerSwapTest, WhoFindsNoRoomOnTheHostComputesAgain) {
  StartSwapping(6, 1);
  const SequenceId first = Add(kLocal, 8, 12);
  const SequenceId second = Add(kLocal, 7, 12);
  const StepPlan plan = RunUntilPreempted(second);
  EXPECT_FALSE(Live(second)->swapped.has_value());
  EXPECT_TRUE(plan.swaps_out.empty());
  EXPECT_EQ(host_pool_->num_used(), 0) << "a part of it is of no use";
  EXPECT_EQ(scheduler_->figures().swaps_without_room, 1u);
  Commit(plan);
  StepAll();
  EXPECT_EQ(Count<TokenEvent>(first), 12);
  EXPECT_EQ(Count<TokenEvent>(second), 12);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerSwapTest, WhoEndsWhileItIsSwappedLeavesNothingBehind) {
  StartSwapping(6, 8);
  Add(kLocal, 8, 12);
  const SequenceId second = Add(kLocal, 7, 12);
  const StepPlan plan = RunUntilPreempted(second);
  ASSERT_FALSE(plan.swaps_out.empty());
  Cancel(second);  // its copies out are on the device
  EXPECT_EQ(host_pool_->num_used(), 0);
  Commit(plan);
  StepAll();
  EXPECT_EQ(scheduler_->figures().blocks_swapped_in, 0u);
  ExpectAllBlocksBack();
}

// It has no row in the step that copies its blocks in, so it is over at once, and they are free.
TEST_F(SchedulerSwapTest, WhoEndsOnItsWayBackLeavesNoBlockToATransferBeforeTheCopyIsDone) {
  options_.max_num_batched_tokens = options_.max_prefill_tokens = 1;
  options_.max_steps_in_flight = 2;
  StartSwapping(9, 12);
  const SequenceId first = Add(kLocal, 8, 20);
  const std::vector<SequenceId> others = {Add(kLocal, 7, 12), Add(kLocal, 6, 12)};
  StepPlan plan;
  for (int i = 0; i < 1000 && plan.swaps_in.size() < 4; ++i) {
    plan = Plan();
    if (plan.swaps_in.size() < 4) Commit(plan);
  }
  EXPECT_EQ(StateOf(first), SequenceState::kDone);
  ASSERT_EQ(plan.rows.size(), 1u);
  const SequenceId rowless = plan.rows[0].sequence == others[0] ? others[1] : others[0];
  ASSERT_TRUE(Live(rowless)->running()) << "both came back in one step";
  Cancel(rowless);
  EXPECT_EQ(Live(rowless), nullptr);
  const SequenceId reserved = Add(kReserved, 4, 4);
  const StepPlan behind = Plan();
  EXPECT_EQ(Count<BlocksGranted>(reserved), 0);
  Commit(plan);
  const StepPlan last = Plan();
  EXPECT_EQ(Count<BlocksGranted>(reserved), 1);
  if (!behind.empty()) Commit(behind);
  if (!last.empty()) Commit(last);
  Cancel(reserved);
  ReturnLease(reserved);
  StepAll();
  ExpectAllBlocksBack();
}

// A transfer writes its blocks whenever it likes, also before the step has read them.
TEST_F(SchedulerSwapTest, NoReservationIsGrantedWhileBlocksAreBeingCopied) {
  options_.max_steps_in_flight = 2;
  StartSwapping(7, 8);
  Add(kLocal, 8, 16);
  const SequenceId second = Add(kLocal, 7, 16);
  std::deque<StepPlan> out;
  for (int i = 0; i < 1000; ++i) {
    out.push_back(Plan());
    if (!out.back().swaps_out.empty()) break;
    if (out.size() < 2) continue;
    Commit(out.front());
    out.pop_front();
  }
  ASSERT_EQ(StateOf(second), SequenceState::kPreempted);
  Cancel(second);  // else it would be first in line
  const SequenceId reserved = Add(kReserved, 4, 4);
  while (out.size() > 1) {
    Commit(out.front());
    out.pop_front();
  }
  out.push_back(Plan());
  EXPECT_EQ(Count<BlocksGranted>(reserved), 0) << "the copies out are not committed";
  Commit(out.front());
  out.pop_front();
  out.push_back(Plan());
  EXPECT_EQ(Count<BlocksGranted>(reserved), 1);
}

// Its copies out would leave with the next step, but there is none: who ran has ended, and the
// first in line is a reservation.
TEST_F(SchedulerSwapTest, CopiesThatNoStepWillMakeKeepNobodyWaiting) {
  options_.max_steps_in_flight = 2;
  options_.max_num_seqs = 2;
  options_.policy.displaces = [](const SequenceView&, const SequenceView&, const PolicyMoment&) {
    return true;
  };
  StartSwapping(20, 8);
  const SequenceId first = Add(kLocal, 4, 3), victim = Add(kLocal, 8, 12);
  ASSERT_TRUE(Step());
  const StepPlan of_both = Plan();
  SequenceSpec spec = Spec(kReserved, 5, 4);
  spec.waited = std::chrono::seconds(1);  // elsewhere, so it came before the victim
  const SequenceId reserved = Add(std::move(spec));
  const StepPlan last_of_first = Plan();
  ASSERT_EQ(last_of_first.rows.size(), 1u) << "the victim sits a step out";
  Commit(of_both);
  EXPECT_TRUE(Plan().empty());
  ASSERT_TRUE(Live(victim)->swapped.has_value());
  EXPECT_EQ(Count<BlocksGranted>(reserved), 0);
  EXPECT_FALSE(scheduler_->figures().short_of_blocks) << "there are enough of them";
  Commit(last_of_first);
  ASSERT_EQ(StateOf(first), SequenceState::kDone);
  const StepPlan plan = Plan();
  EXPECT_EQ(Count<BlocksGranted>(reserved), 1);
  EXPECT_TRUE(plan.swaps_out.empty());
  EXPECT_EQ(host_pool_->num_used(), 0);
  Commit(plan);
  Cancel(reserved);
  ReturnLease(reserved);
  StepAll();
  EXPECT_EQ(Count<TokenEvent>(victim), 12);
  ExpectAllBlocksBack();
}

// What others use and the prefix cache knows stays where it is.
TEST_F(SchedulerSwapTest, ASharedBeginningIsNotCopied) {
  StartSwapping(7, 8, /*caching=*/true);
  const SequenceId first = Add(Spec(kLocal, 9, 14));
  ASSERT_TRUE(Step());
  SequenceSpec spec = Spec(kLocal, 9, 14);  // the same two blocks, and then another answer
  spec.prompt.back() = 99;
  const SequenceId second = Add(std::move(spec));
  const StepPlan plan = RunUntilPreempted(second);
  ASSERT_TRUE(Live(second)->swapped.has_value());
  EXPECT_EQ(Live(second)->swapped->first, 2);
  EXPECT_EQ(plan.swaps_out.size(),
            static_cast<size_t>(BlocksFor(Live(second)->swapped->computed, kBlockSize) - 2));
  Commit(plan);
  StepAll();
  EXPECT_EQ(TokensOf(first).size(), 14u);
  EXPECT_EQ(TokensOf(second).size(), 14u);
  EXPECT_EQ(scheduler_->figures().swaps_lost, 0u);
  ExpectAllBlocksBack();
}

// Nothing is held for it: if the beginning is gone when it comes back, it computes all of it again.
TEST_F(SchedulerSwapTest, WhoseBeginningWasEvictedComputesAgain) {
  StartSwapping(9, 12, /*caching=*/true);
  const SequenceId oldest = Add(kLocal, 8, 26);
  ASSERT_TRUE(Step());
  const SequenceId twin = Add(Spec(kLocal, 9, 14));
  ASSERT_TRUE(Step());
  const SequenceId last = Add(Spec(kLocal, 9, 14));
  Commit(RunUntilPreempted(last));
  ASSERT_TRUE(Live(last)->swapped.has_value());
  ASSERT_EQ(Live(last)->swapped->first, 2);
  while (Live(oldest)->table.size() < 7) ASSERT_TRUE(Step());
  ASSERT_EQ(Live(twin)->swapped->first, 0) << "by then nobody else had these blocks";
  Cancel(twin);
  StepAll();
  EXPECT_EQ(scheduler_->figures().swaps_lost, 1u);
  EXPECT_EQ(scheduler_->figures().blocks_swapped_in, 0u);
  EXPECT_EQ(Count<TokenEvent>(oldest), 26);
  EXPECT_EQ(Count<TokenEvent>(last), 14);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerSwapTest, TwoStepsInFlightGiveTheSameTokens) {
  for (const bool caching : {false, true}) {
    std::vector<std::vector<std::vector<TokenId>>> runs;
    for (const int32_t blocks : {60, 7}) {
      scheduler_.reset();
      cache_.reset();
      host_pool_.reset();
      events_.clear();
      last_id_ = 0;
      options_.max_steps_in_flight = 2;
      model_.max_in_flight = 2;
      model_.lazy = true;
      StartSwapping(blocks, 12, caching);
      std::vector<SequenceId> ids;
      for (int i = 0; i < 4; ++i) ids.push_back(Add(kLocal, 3 + i, 16));
      std::deque<StepPlan> out;
      for (int i = 0; i < 10000; ++i) {
        StepPlan plan = Plan();
        const bool planned = !plan.empty();
        if (planned) {
          out.push_back(std::move(plan));
          ASSERT_TRUE(runner_->Submit(out.back()).ok());
        }
        if (out.empty()) break;
        if (planned && out.size() < 2) continue;
        auto output = runner_->Wait();
        ASSERT_TRUE(output.ok());
        scheduler_->Commit(out.front(), *output, now_);
        out.pop_front();
      }
      Plan();  // collects events
      auto& run = runs.emplace_back();
      for (const SequenceId id : ids) run.push_back(TokensOf(id));
      EXPECT_EQ(scheduler_->figures().swaps > 0, blocks == 7);
      ExpectAllBlocksBack();
    }
    EXPECT_EQ(runs[0], runs[1]);
  }
}

}  // namespace
}  // namespace baton
