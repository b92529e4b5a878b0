// Logits that are no numbers: who ends by them, who does not, and what is left in the prefix cache.
#include <algorithm>

#include "common/base/status.h"
#include "tests/common/sched/scheduler_fixture.h"

namespace baton {
namespace {

constexpr TokenId kPoison = 666;

class SchedulerSpoiltTest : public SchedulerTest {
 protected:
  SchedulerSpoiltTest() {
    // From this token on nothing that is computed is a number.
    model_.spoils = [](const kernels::SampleRow& row) {
      const auto spoilt = [](std::span<const TokenId> ids) {
        return std::ranges::find(ids, kPoison) != ids.end();
      };
      return spoilt(row.prompt) || spoilt(row.output);
    };
    model_.force = [](const kernels::SampleRow& row) {
      return std::optional<TokenId>(500 + static_cast<TokenId>(row.output.size()));
    };
  }
  SequenceSpec Poisoned(SequenceKind kind, int32_t prompt, int32_t at) {
    SequenceSpec spec = Spec(kind, prompt, 9);
    spec.prompt[static_cast<size_t>(at)] = kPoison;
    return spec;
  }
  void ExpectSpoilt(SequenceId id) {
    const auto* finished = Last<FinishedEvent>(id);
    ASSERT_NE(finished, nullptr);
    EXPECT_EQ(finished->reason, FinishReason::kError);
    EXPECT_EQ(finished->status.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(ReasonOf(finished->status), Reason::kLogitsNotFinite);
    EXPECT_EQ(StateOf(id), SequenceState::kFailed);
  }
};

TEST_F(SchedulerSpoiltTest, ItsOwnSequenceEndsAndNoOther) {
  for (const int32_t in_flight : {1, 2}) {
    options_.max_steps_in_flight = in_flight;
    Start(64, /*caching=*/true);
    const SequenceId spoilt = Add(Poisoned(kLocal, 9, 3));
    const SequenceId other = Add(kLocal, 9, 9);
    StepAll();
    ExpectSpoilt(spoilt);
    EXPECT_EQ(Count<TokenEvent>(spoilt), 0);
    EXPECT_EQ(Count<TokenEvent>(other), 9);
    EXPECT_EQ(Last<FinishedEvent>(other)->reason, FinishReason::kLength);
    EXPECT_EQ(scheduler_->figures().ends_not_finite, 1u);
    ExpectAllBlocksBack();
    events_.clear();
  }
}

TEST_F(SchedulerSpoiltTest, ATokenThatSpoilsWhatFollowsIsTheLast) {
  model_.force = [](const kernels::SampleRow& row) {
    return std::optional<TokenId>(row.output.size() == 2 ? kPoison : 7);
  };
  Start(64);
  const SequenceId id = Add(kLocal, 9, 9);
  StepAll();
  ExpectSpoilt(id);
  EXPECT_EQ(Count<TokenEvent>(id), 3);
  EXPECT_EQ(Last<FinishedEvent>(id)->generated_tokens, 3);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerSpoiltTest, NobodyFindsItsBlocksInThePrefixCache) {
  options_.max_prefill_tokens = 4;  // so that blocks are entered before any logits are known
  Start(64, /*caching=*/true);
  const SequenceId spoilt = Add(Poisoned(kLocal, 14, 13));
  StepAll();
  ExpectSpoilt(spoilt);
  EXPECT_EQ(pool_->num_cached(), 0);
  const SequenceId same_prefix = Add(Spec(kLocal, 13, 1));
  StepAll();
  EXPECT_EQ(Last<FinishedEvent>(same_prefix)->cached_tokens, 0);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerSpoiltTest, BlocksThatItFoundThereAreTakenOutAsWell) {
  Start(64, /*caching=*/true);
  Add(Spec(kLocal, 12, 1));
  StepAll();
  ASSERT_EQ(pool_->num_cached(), 3);
  const SequenceId spoilt = Add(Poisoned(kLocal, 14, 13));
  StepAll();
  ExpectSpoilt(spoilt);
  EXPECT_EQ(Last<FinishedEvent>(spoilt)->cached_tokens, 12);
  EXPECT_EQ(pool_->num_cached(), 0);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerSpoiltTest, APrefillWhoseBlocksAreOutEndsWhenTheyComeBack) {
  options_.max_prefill_tokens = 4;
  Start(64);
  const SequenceId spoilt = Add(Poisoned(kPrefill, 14, 13));
  StepAll();
  ExpectSpoilt(spoilt);
  EXPECT_EQ(Count<DetachEvent>(spoilt), 1);
  EXPECT_EQ(pool_->num_quarantined(), 3);
  ReturnLease(spoilt);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerSpoiltTest, AScoreThatIsNoNumberEndsItsSequence) {
  Start(64);
  SequenceSpec spec = Spec(kLocal, 9, 3);
  spec.score_from = 1;
  const SequenceId id = Add(std::move(spec));
  const StepPlan plan = Plan();
  ASSERT_GT(plan.num_scores, 1);
  ASSERT_TRUE(runner_->Submit(plan).ok());
  StepOutput output = *runner_->Wait();
  output.scores[1].valid = false;
  scheduler_->Commit(plan, output, now_);
  StepAll();
  ExpectSpoilt(id);
  EXPECT_EQ(Count<ScoresEvent>(id), 0);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerSpoiltTest, ABeamThatIsSpoiltEndsTheSearch) {
  options_.limits.max_beams = 2;
  options_.limits.block_size = kBlockSize;
  options_.limits.eos_ids = options_.eos_ids;
  Start(64);
  SequenceSpec spec = Spec(kLocal, 9, 6);
  spec.sampling.temperature = 0;
  spec.beams = {.width = 2, .results = 2};
  const SequenceId id = Add(std::move(spec));
  ASSERT_TRUE(Step());
  const StepPlan plan = Plan();
  ASSERT_EQ(plan.rows.size(), 2u);
  ASSERT_TRUE(runner_->Submit(plan).ok());
  StepOutput output = *runner_->Wait();
  output.samples[1] = {.valid = false};
  scheduler_->Commit(plan, output, now_);
  StepAll();
  ExpectSpoilt(id);
  ExpectAllBlocksBack();
}

// What a proposal spoils is not drawn behind, unless the proposal is what would have been drawn.
TEST_F(SchedulerSpoiltTest, AProposalThatSpoilsTheRowHarmsNobody) {
  options_.proposals = {.most = 4, .batch = 16};
  options_.max_draws = options_.max_num_seqs + 16;
  Start(64);
  const SequenceId id = Add(kLocal, 6, 9);
  ASSERT_TRUE(Step());
  const std::vector<TokenId> ids = {501, kPoison, 503};
  scheduler_->Propose([&](const ProposalRequest&) { return std::span<const TokenId>(ids); });
  ASSERT_TRUE(Step());
  EXPECT_EQ(Count<TokenEvent>(id), 3) << "500, 501, and 502 behind them";
  StepAll();
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kLength);
  EXPECT_EQ(Count<TokenEvent>(id), 9);
  ExpectAllBlocksBack();
}

TEST(DrawHealthTest, IsSuspectWhereManyPromptsAndNothingBetweenThemWasSpoilt) {
  const auto spoil = [](DrawHealth& health, int prompts) {
    for (int i = 0; i < prompts; ++i) health.Spoilt(std::vector<TokenId>{7, i});
  };
  constexpr auto kMost = static_cast<int>(DrawHealth::kMostSpoilt);
  DrawHealth health;
  spoil(health, kMost - 1);
  EXPECT_FALSE(health.suspect());
  spoil(health, kMost - 1);
  EXPECT_FALSE(health.suspect()) << "the same prompts again";
  health.Drew();
  spoil(health, kMost - 1);
  EXPECT_FALSE(health.suspect());
  spoil(health, kMost);
  EXPECT_TRUE(health.suspect());
}

}  // namespace
}  // namespace baton
