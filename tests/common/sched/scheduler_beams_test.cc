// Beam searches among other sequences: their rows and blocks, and the same answers however they
// ran.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <random>

#include "tests/common/sched/scheduler_fixture.h"

namespace baton {
namespace {

using ::testing::IsEmpty;

bool SameResult(const BeamResult& a, const BeamResult& b) {
  return a.tokens == b.tokens && a.score == b.score && a.reason == b.reason;
}

class SchedulerBeamsTest : public SchedulerTest {
 protected:
  SchedulerBeamsTest() {
    options_.max_num_seqs = 16;
    options_.limits.max_beams = 16;
    options_.limits.block_size = kBlockSize;
    options_.limits.eos_ids = options_.eos_ids;
    model_.eos_permille = 60;
  }

  static SequenceSpec Beams(int32_t width, int32_t prompt, int32_t max_tokens, int32_t salt = 0) {
    SequenceSpec spec = Spec(kLocal, prompt, max_tokens);
    spec.prompt[0] = 300 + salt;
    spec.sampling.temperature = 0;
    spec.beams = {.width = width, .results = width, .early_stopping = EarlyStopping::kNever};
    return spec;
  }

  // The same search without scheduler, blocks or memory.
  std::vector<BeamResult> Oracle(const SequenceSpec& spec) const {
    const auto ends = [](TokenId id) {
      return id == 2 ? FinishReason::kStopEos : FinishReason::kNone;
    };
    BeamGroup group(spec.beams, spec.stop.max_tokens, ends);
    std::vector<std::vector<TokenId>> beams = {spec.prompt};
    while (true) {
      std::vector<std::vector<TokenLogprob>> candidates;
      for (const auto& beam : beams) {
        candidates.push_back(FakeCandidates(model_, FakeHistoryHash(arena_->kv().layout, beam),
                                            spec.beams.width + 1));
      }
      group.Advance(
          std::vector<std::span<const TokenLogprob>>(candidates.begin(), candidates.end()));
      if (group.done()) return group.Results();
      std::vector<std::vector<TokenId>> next;
      for (const BeamGroup::Member& member : group.members()) {
        next.push_back(beams[static_cast<size_t>(member.parent)]);
        next.back().push_back(member.token);
      }
      beams = std::move(next);
    }
  }
  void ExpectFound(SequenceId id, const SequenceSpec& spec) const {
    const auto* finished = Last<FinishedEvent>(id);
    ASSERT_NE(finished, nullptr) << id.value();
    EXPECT_TRUE(std::ranges::equal(finished->beams, Oracle(spec), SameResult)) << id.value();
    EXPECT_EQ(finished->reason, finished->beams.front().reason);
    EXPECT_EQ(finished->generated_tokens, std::ssize(finished->beams.front().tokens));
  }
};

TEST_F(SchedulerBeamsTest, AStepHasARowForEachBeamAndCopiesWhatTheyShare) {
  Start(64);
  const SequenceSpec spec = Beams(3, 6, 20);
  const SequenceId id = Add(spec);
  StepPlan plan = Plan();
  ASSERT_EQ(plan.rows.size(), 1u);
  EXPECT_EQ(plan.rows[0].draws[0].num_top_logprobs, 4) << "the width and one EOS id";
  now_ += std::chrono::seconds(2);
  Commit(plan);
  EXPECT_EQ(Count<TokenEvent>(id), 1) << "the prompt was computed";
  plan = Plan();
  ASSERT_EQ(plan.rows.size(), 3u);
  EXPECT_EQ(plan.num_tokens, 3);
  EXPECT_EQ(plan.copies.size(), 2u) << "the last beam keeps the block of the prompt";
  EXPECT_EQ(pool_->num_used(), 4) << "one full block of the prompt, and one for each beam";
  for (const StepRow& row : plan.rows) {
    EXPECT_EQ(row.first_position, 6);
    EXPECT_EQ(row.blocks.size(), 2u);
    EXPECT_EQ(row.blocks[0], plan.rows[0].blocks[0]);
  }
  Commit(plan);
  StepAll();
  EXPECT_EQ(Count<TokenEvent>(id), 1) << "nothing is told before the end";
  EXPECT_EQ(Last<FinishedEvent>(id)->prefill_time, std::chrono::seconds(2));
  ExpectFound(id, spec);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerBeamsTest, FindsTheSameForEveryWidthPromptAndRule) {
  Start(400);
  std::vector<std::pair<SequenceId, SequenceSpec>> added;
  int32_t salt = 0;
  for (const int32_t width : {1, 2, 5, 16}) {
    for (const int32_t prompt : {1, 4, 7, 8}) {
      for (const EarlyStopping early :
           {EarlyStopping::kFalse, EarlyStopping::kTrue, EarlyStopping::kNever}) {
        ++salt;
        SequenceSpec spec = Beams(width, prompt, salt % 23 + 1, salt);
        spec.beams.early_stopping = early;
        spec.beams.length_penalty = salt % 2 == 0 ? 0.6F : 1;
        const SequenceId id = Add(spec);
        added.emplace_back(id, std::move(spec));
      }
    }
  }
  StepAll();
  for (const auto& [id, spec] : added) ExpectFound(id, spec);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerBeamsTest, ASearchTakesAsManyPlacesAsItsWidth) {
  options_.max_num_seqs = 8;
  Start(400);
  const SequenceId first = Add(Beams(5, 4, 30, 1));
  const SequenceId second = Add(Beams(4, 4, 30, 2));
  const SequenceId third = Add(kLocal, 4, 30);
  Step();
  EXPECT_EQ(StateOf(first), SequenceState::kDecoding);
  EXPECT_EQ(scheduler_->figures().places, 1) << "8, less 4 and 3 beams beside the first ones";
  EXPECT_EQ(scheduler_->figures().running, 1) << "the second waits, and nobody overtakes it";
  StepAll();
  EXPECT_NE(Last<FinishedEvent>(second), nullptr);
  EXPECT_NE(Last<FinishedEvent>(third), nullptr);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerBeamsTest, BeamsAreNotDividedAmongSteps) {
  options_.max_num_batched_tokens = 5;
  options_.max_prefill_tokens = 4;
  Start(400);
  std::vector<std::pair<SequenceId, SequenceSpec>> added;
  for (int32_t i = 0; i < 3; ++i) {
    const SequenceSpec spec = Beams(4, 9, 25, i);
    added.emplace_back(Add(spec), spec);
  }
  const SequenceId other = Add(kLocal, 9, 25);
  for (int i = 0; i < 1000; ++i) {
    const StepPlan plan = Plan();
    if (plan.empty()) break;
    std::map<SequenceId, int> rows;
    for (const StepRow& row : plan.rows) {
      if (row.slot < 0) ++rows[row.sequence];
    }
    for (const auto& [id, count] : rows) EXPECT_EQ(count, 4);
    Commit(plan);
  }
  for (const auto& [id, spec] : added) ExpectFound(id, spec);
  EXPECT_NE(Last<FinishedEvent>(other), nullptr);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerBeamsTest, IsPreemptedAsOneAndBeginsAnew) {
  model_.eos_permille = 0;
  Start(16);
  const SequenceId older = Add(kLocal, 16, 40);
  Add(kLocal, 16, 40);
  const SequenceSpec spec = Beams(4, 6, 9);
  const SequenceId id = Add(spec);
  StepAll();
  EXPECT_GT(scheduler_->figures().preemptions, 0u);
  EXPECT_GT(Last<FinishedEvent>(id)->preemptions, 0);
  EXPECT_EQ(Count<TokenEvent>(id), 1);
  EXPECT_NE(Last<FinishedEvent>(older), nullptr);
  ExpectFound(id, spec);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerBeamsTest, IsSwappedAsOneAndGoesOnWhereItWas) {
  model_.eos_permille = 0;
  Start(16, /*caching=*/false, /*host_blocks=*/40);
  const SequenceId older = Add(kLocal, 16, 40);
  Add(kLocal, 16, 40);
  const SequenceSpec spec = Beams(4, 6, 9);
  const SequenceId id = Add(spec);
  StepAll();
  const SchedulerFigures figures = scheduler_->figures();
  EXPECT_GT(Last<FinishedEvent>(id)->preemptions, 0);
  EXPECT_EQ(figures.swaps, figures.preemptions);
  EXPECT_EQ(figures.blocks_swapped_in, figures.blocks_swapped_out);
  EXPECT_EQ(figures.prompt_tokens_computed, 38u) << "each prompt once";
  EXPECT_NE(Last<FinishedEvent>(older), nullptr);
  ExpectFound(id, spec);
  ExpectAllBlocksBack();
}

// Whoever reads its prompt as well may hold all of the prompt's blocks.
TEST_F(SchedulerBeamsTest, NothingIsLostOfASwappedSearchWhosePromptOthersHold) {
  model_.eos_permille = 0;
  Start(28, /*caching=*/true, /*host_blocks=*/40);
  Add(kLocal, 56, 40);
  const SequenceSpec spec = Beams(4, 2 * kBlockSize, 20);
  const SequenceId id = Add(spec);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Step());
  SequenceSpec longer = Spec(kPrefill, 2 * kBlockSize + 1, 1);
  longer.prompt[0] = spec.prompt[0];
  const SequenceId holder = Add(std::move(longer));
  StepAll();
  ASSERT_EQ(Last<FinishedEvent>(holder)->cached_tokens, 2 * kBlockSize);
  const SchedulerFigures figures = scheduler_->figures();
  EXPECT_GT(Last<FinishedEvent>(id)->preemptions, 0);
  EXPECT_EQ(figures.swaps, figures.preemptions);
  EXPECT_EQ(figures.swaps_lost, 0u);
  EXPECT_EQ(figures.prompt_tokens_computed, 56u + 8u + 1u) << "each prompt once";
  ExpectFound(id, spec);
  ReturnLease(holder);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerBeamsTest, TheOldestAloneFinishesInThePoolThatItWasAdmittedFor) {
  const SequenceSpec spec = Beams(5, 7, 22);
  const auto blocks = static_cast<int32_t>(BeamPoolTokens(7, 22, 5, kBlockSize) / kBlockSize);
  Start(blocks);
  const SequenceId id = Add(spec);
  for (int32_t i = 0; i < 4; ++i) Add(kLocal, 5, 20);
  StepAll();
  ExpectFound(id, spec);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerBeamsTest, GoesOnFromACommitWithItsCandidates) {
  Start(64);
  SequenceSpec spec = Beams(3, 6, 20);
  const std::vector<TokenLogprob> candidates =
      FakeCandidates(model_, FakeHistoryHash(arena_->kv().layout, spec.prompt), 4);
  // What a prefill worker draws, and that it ends nothing there.
  SequenceSpec there = spec;
  there.kind = kPrefill;
  const SequenceId prefill = Add(there);
  StepAll();
  const auto* first = Last<TokenEvent>(prefill);
  ASSERT_EQ(first->token.top_logprobs.size(), 4u);
  EXPECT_EQ(first->token.top_logprobs[3].token, candidates[3].token);
  EXPECT_EQ(Last<FinishedEvent>(prefill)->reason, FinishReason::kNone);
  const BlocksProven proven = *Last<BlocksProven>(prefill);

  spec.kind = kReserved;
  const SequenceId id = Add(spec);
  Step();
  now_ += std::chrono::seconds(3);
  const auto* granted = Last<BlocksGranted>(id);
  ASSERT_NE(granted, nullptr);
  for (size_t i = 0; i < granted->lease.size(); ++i) {
    const kernels::PagedKv& kv = arena_->kv();
    std::memcpy(kv.block(granted->lease[i].block.value()), kv.block(static_cast<int32_t>(i)),
                kv.layout.block_bytes());
  }
  scheduler_->CommitImport(id, first->token, now_);
  ReturnLease(prefill);
  StepAll();
  EXPECT_EQ(Count<TokenEvent>(id), 0);
  ExpectFound(id, spec);
  EXPECT_EQ(Last<FinishedEvent>(id)->prefill_time, base::Duration())
      << "the wait for another worker is no prefill";
  ExpectAllBlocksBack();
}

TEST_F(SchedulerBeamsTest, SitsOutTheSecondStepInFlight) {
  options_.max_steps_in_flight = 2;
  model_.max_in_flight = 2;
  Start(64);
  const SequenceSpec spec = Beams(3, 6, 20);
  const SequenceId id = Add(spec);
  const SequenceId other = Add(kLocal, 5, 30);
  std::deque<StepPlan> out;
  const auto commit = [&] {
    auto output = runner_->Wait();
    scheduler_->Commit(out.front(), *output, now_);
    out.pop_front();
  };
  uint64_t ahead = 0;
  while (true) {
    StepPlan plan = Plan();
    if (plan.empty() && out.empty()) break;
    const bool planned = !plan.empty();
    if (planned) {
      if (!out.empty()) {
        for (const StepRow& row : plan.rows) ahead += row.sequence == other ? 1 : 0;
        const auto searches = [&](const StepRow& row) { return row.sequence == id; };
        const bool both = std::ranges::any_of(plan.rows, searches) &&
                          std::ranges::any_of(out.back().rows, searches);
        EXPECT_FALSE(both);
      }
      out.push_back(std::move(plan));
      ASSERT_TRUE(runner_->Submit(out.back()).ok());
    }
    if (out.size() == 2 || !planned) commit();
  }
  Plan();
  EXPECT_GT(ahead, 0u);
  ExpectFound(id, spec);
  ExpectAllBlocksBack();
}

// Searches and other requests of many kinds in pools that are too small for them, some cancelled
// in between: nobody waits for ever, no block is lost, and what was found is right.
TEST_F(SchedulerBeamsTest, AnythingMayHappenAround) {
  uint64_t swaps = 0, without_room = 0;
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto up_to = [&](uint32_t most) { return static_cast<int32_t>(random() % most); };
    options_.max_num_batched_tokens = 8 + up_to(30);
    options_.max_prefill_tokens = 4 + up_to(20);
    options_.max_num_seqs = 8;
    options_.limits.max_beams = 8;
    events_.clear();
    state_.clear();
    last_id_ = 0;
    scheduler_.reset();
    cache_.reset();
    host_pool_.reset();
    const int32_t blocks = 24 + up_to(10);
    Start(blocks, /*caching=*/seed % 2 == 0, seed % 3 == 0 ? 0 : 1 + up_to(30));
    std::vector<std::pair<SequenceId, SequenceSpec>> searches;
    std::vector<SequenceId> cancelled;
    for (int i = 0; i < 300; ++i) {
      if (i < 60 && up_to(3) == 0) {
        if (up_to(2) == 0) {
          Add(kLocal, 1 + up_to(20), 1 + up_to(60));
        } else {
          SequenceSpec spec = Beams(2 + up_to(4), 1 + up_to(12), 1 + up_to(12), i);
          const SequenceId id = Add(spec);
          if (up_to(5) == 0) cancelled.push_back(id);
          searches.emplace_back(id, std::move(spec));
        }
      }
      if (i % 7 == 0 && !cancelled.empty()) {
        Cancel(cancelled.back());
        cancelled.pop_back();
      }
      Step();
      ASSERT_TRUE(pool_->IsConsistent());
    }
    StepAll();
    for (const auto& [id, spec] : searches) {
      const auto* finished = Last<FinishedEvent>(id);
      ASSERT_NE(finished, nullptr);
      if (finished->reason == FinishReason::kAborted) {
        EXPECT_THAT(finished->beams, IsEmpty());
      } else {
        ExpectFound(id, spec);
      }
    }
    ExpectAllBlocksBack();
    const SchedulerFigures figures = scheduler_->figures();
    swaps += figures.swaps;
    without_room += figures.swaps_without_room;
  }
  EXPECT_GT(swaps, 0u);
  EXPECT_GT(without_room, 0u);
}

TEST_F(SchedulerBeamsTest, ASearchAsksForTheSeatsOfAllItsBeams) {
  options_.max_num_seqs = 4;
  Start(64);
  const SequenceId runs = Add(Beams(3, 6, 20));
  Add(Spec(kReserved, 6, 20));
  ASSERT_TRUE(Step());
  const SequenceId waits = Add(Beams(2, 6, 20, 1));
  const SchedulerFigures figures = scheduler_->figures();
  EXPECT_EQ(figures.running + figures.reserved + figures.waiting, 3);
  EXPECT_EQ(figures.seats, 3 + 1 + 2);
  Cancel(waits);
  Cancel(runs);
  EXPECT_EQ(scheduler_->figures().seats, 1);
}

}  // namespace
}  // namespace baton
