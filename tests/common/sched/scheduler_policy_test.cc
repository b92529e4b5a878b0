// What a policy decides, and what it cannot.
#include "tests/common/sched/scheduler_fixture.h"

namespace baton {
namespace {

using SchedulerPolicyTest = SchedulerTest;

// The one of which less is expected comes first; of which nothing is known, last.
bool Shorter(const SequenceView& a, const SequenceView& b, const PolicyMoment&) {
  if (a.end.has_value() != b.end.has_value()) return a.end.has_value();
  if (!a.end) return CameBefore(a, b);
  return a.end->expected_remaining < b.end->expected_remaining;
}
EndEstimate Expect(float remaining) { return {.expected_remaining = remaining}; }

TEST_F(SchedulerPolicyTest, WaitingSequencesStartInThePolicysOrder) {
  options_.max_num_seqs = 2;
  options_.policy.starts_before = Shorter;
  Start(20);
  const SequenceId oldest = Add(kLocal, 4, 30);
  ASSERT_TRUE(Step());
  const SequenceId unknown = Add(kLocal, 4, 2), longer = Add(kLocal, 4, 2),
                   shorter = Add(kLocal, 4, 2);
  scheduler_->Foresee(longer, Expect(50));
  scheduler_->Foresee(shorter, Expect(5));
  StepAll();
  std::vector<SequenceId> ended;
  for (const SchedEvent& event : events_) {
    if (std::holds_alternative<FinishedEvent>(event.what)) ended.push_back(event.sequence);
  }
  EXPECT_EQ(ended, (std::vector{shorter, longer, unknown, oldest}));
}

TEST_F(SchedulerPolicyTest, TheFirstToComeHasTheNextPlaceWhateverThePolicySays) {
  options_.max_num_seqs = 1;
  options_.policy.starts_before = Shorter;
  Start(20);
  Add(kLocal, 4, 2);
  ASSERT_TRUE(Step());
  const SequenceId unknown = Add(kLocal, 4, 2), shorter = Add(kLocal, 4, 2);
  scheduler_->Foresee(shorter, Expect(5));
  while (Last<FinishedEvent>(shorter) == nullptr) ASSERT_TRUE(Step());
  EXPECT_NE(Last<FinishedEvent>(unknown), nullptr);
}

TEST_F(SchedulerPolicyTest, WhoIsNotAdmittedWaitsUntilThereIsRoom) {
  options_.policy.admits = [](const SequenceView& candidate, const AdmissionView& view,
                              const PolicyMoment&) {
    int64_t tokens = candidate.prompt_tokens;
    for (const SequenceView& sequence : view.beside) tokens += sequence.prompt_tokens;
    return tokens <= view.pool_tokens / 4;
  };
  Start(20);  // 80 tokens
  const SequenceId first = Add(kLocal, 12, 3), second = Add(kLocal, 12, 3);
  ASSERT_TRUE(Step());
  EXPECT_EQ(StateOf(first), SequenceState::kDecoding);
  EXPECT_EQ(scheduler_->figures().waiting, 1);
  EXPECT_TRUE(scheduler_->figures().short_of_blocks);
  StepAll();
  EXPECT_NE(Last<FinishedEvent>(first), nullptr);
  EXPECT_NE(Last<FinishedEvent>(second), nullptr) << "nothing ran, so nobody was asked";
  ExpectAllBlocksBack();
}

TEST_F(SchedulerPolicyTest, TheFirstToComeNeverYields) {
  // The policy would take the blocks of who came first.
  options_.policy.yields_before = [](const SequenceView& a, const SequenceView& b,
                                     const PolicyMoment&) { return CameBefore(a, b); };
  Start(9);
  const SequenceId first = Add(kLocal, 4, 30);
  std::vector<SequenceId> others;
  for (int i = 0; i < 2; ++i) others.push_back(Add(kLocal, 4, 30));
  StepAll();
  EXPECT_GT(scheduler_->figures().preemptions, 0u);
  EXPECT_EQ(Last<FinishedEvent>(first)->preemptions, 0);
  for (const SequenceId id : others) {
    EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kLength);
  }
  ExpectAllBlocksBack();
}

TEST_F(SchedulerPolicyTest, AnEstimateStaysWithItsSequenceUntilTheNextToken) {
  Start(20);
  const SequenceId id = Add(kLocal, 4, 3);
  scheduler_->Foresee(id, Expect(7));
  const auto estimate = [&] {
    std::optional<EndEstimate> end;
    scheduler_->Visit([&](const LiveSequence& sequence) { end = sequence.view().end; });
    return end;
  };
  EXPECT_EQ(estimate(), Expect(7));
  const StepPlan plan = Plan();
  StepOutput output;
  output.samples.push_back({.token = 50, .end = Expect(2)});
  scheduler_->Commit(plan, output, now_);
  EXPECT_EQ(estimate(), Expect(2));
  const SchedulerFigures figures = scheduler_->figures();
  EXPECT_EQ(figures.foreseen, 1);
  EXPECT_EQ(figures.expected_tokens, 2);
  EXPECT_EQ(figures.expected_kv_tokens, 2 * 5);
  const StepPlan next = Plan();
  scheduler_->Commit(next, {.samples = {{.token = 51}}}, now_);
  EXPECT_EQ(estimate(), std::nullopt) << "nothing is known, and that is not what was known before";
}

TEST_F(SchedulerPolicyTest, BehindANaturalEndNothingIsForeseen) {
  Start(20);
  SequenceSpec spec = Spec(kLocal, 4, 3);
  spec.stop.eos_policy = EosPolicy::kIgnoreContinue;
  const SequenceId id = Add(std::move(spec));
  const StepPlan plan = Plan();
  StepOutput output;
  output.samples.push_back({.token = 2, .end = Expect(2)});
  scheduler_->Commit(plan, output, now_);
  std::optional<EndEstimate> told;
  for (const SchedEvent& event : scheduler_->TakeEvents()) {
    if (const auto* token = std::get_if<TokenEvent>(&event.what)) told = token->token.end;
  }
  EXPECT_FALSE(told.has_value());
  Cancel(id);
}

TEST_F(SchedulerPolicyTest, WhoIgnoresEosIsExpectedToRunToTheLimit) {
  for (const EosPolicy policy : {EosPolicy::kIgnoreContinue, EosPolicy::kIgnoreMask}) {
    Start(40);
    SequenceSpec spec = Spec(kLocal, 4, 30);
    spec.stop.eos_policy = policy;
    const SequenceId id = Add(std::move(spec));
    scheduler_->Foresee(id, Expect(3));
    const auto estimate = [&] {
      std::optional<EndEstimate> end;
      scheduler_->Visit([&](const LiveSequence& sequence) { end = sequence.view().end; });
      return end;
    };
    ASSERT_TRUE(estimate().has_value());
    EXPECT_EQ(estimate()->expected_remaining, 30);
    EXPECT_EQ(estimate()->p_within, (std::array<float, 5>{0, 0, 0, 1, 1}));
    // The model wants to end, soon and then at once; the request does not.
    for (const SampledToken& token :
         {SampledToken{.token = 50, .end = Expect(1)}, SampledToken{.token = 2}}) {
      const StepPlan plan = Plan();
      scheduler_->Commit(plan, {.samples = {token}}, now_);
    }
    EXPECT_EQ(estimate()->expected_remaining, 28);
    const SchedulerFigures figures = scheduler_->figures();
    EXPECT_EQ(figures.foreseen, 1);
    EXPECT_EQ(figures.expected_tokens, 28);
    EXPECT_EQ(figures.expected_kv_tokens, 28 * 6);
    EXPECT_EQ(figures.expected_ends, 0);
    Cancel(id);
  }
}

}  // namespace
}  // namespace baton
