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

bool IsLonger(const SequenceView& a, const SequenceView& b) {
  return a.end && b.end && a.end->expected_remaining > b.end->expected_remaining;
}

class SchedulerDisplaceTest : public SchedulerPolicyTest {
 protected:
  SchedulerDisplaceTest() {
    options_.max_num_seqs = 2;
    options_.policy.starts_before = Shorter;
    options_.policy.displaces = [](const SequenceView& candidate, const SequenceView& victim,
                                   const PolicyMoment&) { return IsLonger(victim, candidate); };
  }
  SequenceId AddExpecting(float remaining, int32_t max_tokens) {
    const SequenceId id = Add(kLocal, 4, max_tokens);
    scheduler_->Foresee(id, Expect(remaining));
    return id;
  }
  SequenceView ViewOfLive(SequenceId id) const {
    SequenceView view;
    scheduler_->Visit([&](const LiveSequence& sequence) {
      if (sequence.id == id) view = sequence.view();
    });
    return view;
  }
  // What is expected of those that run, after each step.
  bool StepExpecting(const std::map<SequenceId, float>& remaining) {
    if (!Step()) return false;
    for (const auto& [id, left] : remaining) scheduler_->Foresee(id, Expect(left));
    return true;
  }
};

TEST_F(SchedulerDisplaceTest, AShorterOneTakesAPlaceAndGivesItBack) {
  Start(40);
  const SequenceId first = AddExpecting(100, 30), longer = AddExpecting(100, 30);
  ASSERT_TRUE(StepExpecting({{first, 100}, {longer, 100}}));
  const SequenceId shorter = AddExpecting(3, 3);
  ASSERT_TRUE(Step());
  EXPECT_EQ(StateOf(longer), SequenceState::kPreempted);
  EXPECT_EQ(StateOf(shorter), SequenceState::kDecoding);
  EXPECT_TRUE(ViewOfLive(longer).gave_way);
  EXPECT_FALSE(ViewOfLive(first).gave_way) << "who came first keeps its place";
  StepAll();
  EXPECT_EQ(Last<FinishedEvent>(longer)->generated_tokens, 30);
  EXPECT_EQ(scheduler_->figures().displaced, 1u);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerDisplaceTest, NobodyGivesWayTwice) {
  Start(40);
  const SequenceId first = AddExpecting(100, 60), longer = AddExpecting(100, 60);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(StepExpecting({{first, 100}, {longer, 100}}));
    AddExpecting(3, 3);
  }
  StepAll();
  EXPECT_EQ(Last<FinishedEvent>(longer)->preemptions, 1);
  EXPECT_EQ(Last<FinishedEvent>(first)->preemptions, 0);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerDisplaceTest, OnlyOneWaitsThatGaveWay) {
  options_.max_num_seqs = 3;
  Start(40);
  const SequenceId first = AddExpecting(100, 30), second = AddExpecting(100, 30),
                   third = AddExpecting(100, 30);
  ASSERT_TRUE(StepExpecting({{first, 100}, {second, 100}, {third, 100}}));
  AddExpecting(3, 20);
  AddExpecting(3, 20);
  ASSERT_TRUE(StepExpecting({{second, 100}, {third, 100}}));
  ASSERT_TRUE(Step());
  EXPECT_EQ(scheduler_->figures().displaced, 1u);
}

TEST_F(SchedulerDisplaceTest, WhoGaveWayWaitsForItsTurnNotBeforeAllOthers) {
  Start(40);
  const SequenceId first = AddExpecting(100, 30), longer = AddExpecting(100, 30);
  ASSERT_TRUE(StepExpecting({{first, 100}, {longer, 100}}));
  const SequenceId shorter = AddExpecting(3, 3);
  ASSERT_TRUE(StepExpecting({{longer, 100}}));
  const SequenceId next = AddExpecting(5, 3);
  while (Last<FinishedEvent>(shorter) == nullptr) ASSERT_TRUE(Step());
  ASSERT_TRUE(Step());
  EXPECT_EQ(StateOf(longer), SequenceState::kPreempted);
  EXPECT_EQ(StateOf(next), SequenceState::kDecoding);
  StepAll();
  ExpectAllBlocksBack();
}

TEST_F(SchedulerDisplaceTest, NoPlaceIsTakenForWantOfBlocks) {
  options_.max_num_seqs = 8;
  Start(6);
  const SequenceId first = AddExpecting(100, 6), longer = AddExpecting(100, 6);
  ASSERT_TRUE(StepExpecting({{first, 100}, {longer, 100}}));
  AddExpecting(3, 3);
  ASSERT_TRUE(Step());
  EXPECT_EQ(StateOf(longer), SequenceState::kDecoding);
  StepAll();
  EXPECT_EQ(scheduler_->figures().displaced, 0u);
}

TEST_F(SchedulerDisplaceTest, ARowThatIsOutIsWaitedFor) {
  options_.max_steps_in_flight = 2;
  model_.max_in_flight = 2;
  Start(40);
  const SequenceId first = AddExpecting(100, 30), longer = AddExpecting(100, 30);
  ASSERT_TRUE(StepExpecting({{first, 100}, {longer, 100}}));
  const StepPlan out = Plan();
  const SequenceId shorter = AddExpecting(3, 3);
  const StepPlan behind = Plan();
  EXPECT_EQ(StateOf(longer), SequenceState::kDecoding) << "its row is on the device";
  EXPECT_EQ(behind.rows.size(), 1u) << "it sits this step out";
  Commit(out);
  Commit(behind);
  scheduler_->Foresee(longer, Expect(100));
  ASSERT_TRUE(Step());
  EXPECT_EQ(StateOf(longer), SequenceState::kPreempted);
  EXPECT_EQ(StateOf(shorter), SequenceState::kDecoding);
  StepAll();
  ExpectAllBlocksBack();
}

TEST_F(SchedulerPolicyTest, WhereThereIsAChoiceALineMayStandBehindThePlaces) {
  options_.max_num_seqs = 2;
  options_.policy.chooses = true;
  options_.policy.settings.line = 3;
  Start(20);
  EXPECT_EQ(scheduler_->figures().places, 5);
  for (int i = 0; i < 5; ++i) Add(kLocal, 4, 10);
  ASSERT_TRUE(Step());
  EXPECT_EQ(scheduler_->figures().places, 5) << "of which three wait";
  EXPECT_EQ(scheduler_->figures().waiting, 3);
}

TEST_F(SchedulerPolicyTest, TheTimeOfAStepIsTold) {
  static base::Duration told;
  options_.policy.starts_before = [](const SequenceView& a, const SequenceView& b,
                                     const PolicyMoment& moment) {
    told = moment.token_time;
    return CameBefore(a, b);
  };
  Start(20);
  for (int i = 0; i < 3; ++i) Add(kLocal, 4, 10);
  for (int i = 0; i < 3; ++i) {
    const StepPlan plan = Plan();
    now_ += std::chrono::milliseconds(7);
    Commit(plan);
    now_ += std::chrono::seconds(1);  // between two steps
  }
  Plan();
  EXPECT_EQ(told, std::chrono::milliseconds(7));
}

// Whoever is next takes the place of the youngest of the others.
bool Always(const SequenceView&, const SequenceView&, const PolicyMoment&) { return true; }

TEST_F(SchedulerPolicyTest, NobodyGivesWayToOneThatStartsBehindIt) {
  options_.max_num_seqs = 2;
  options_.policy.displaces = Always;  // and starts in the order of arrival
  Start(40);
  const SequenceId oldest = Add(kLocal, 4, 20), second = Add(kLocal, 4, 20);
  ASSERT_TRUE(Step());
  const SequenceId third = Add(kLocal, 4, 20);
  ASSERT_TRUE(Step());
  EXPECT_EQ(StateOf(oldest), SequenceState::kDecoding);
  EXPECT_EQ(StateOf(second), SequenceState::kDecoding);
  EXPECT_EQ(Last<StateEvent>(third), nullptr) << "it waits";
  EXPECT_EQ(scheduler_->figures().preemptions, 0u)
      << "it would be next again, and have lost what it had computed";
}

TEST_F(SchedulerPolicyTest, NobodyGivesWayInVain) {
  options_.max_num_seqs = 2;
  options_.policy.displaces = Always;
  options_.policy.starts_before = Shorter;
  // Five blocks, of which both take two, and each that grows keeps one in reserve: a prompt of
  // three finds no room beside the oldest, even in the place of the other one.
  Start(5);
  const SequenceId oldest = Add(kLocal, 4, 12), small = Add(kLocal, 4, 12);
  ASSERT_TRUE(Step());
  ASSERT_EQ(StateOf(small), SequenceState::kDecoding);
  const SequenceId large = Add(kLocal, 12, 4);
  scheduler_->Foresee(large, Expect(1));
  ASSERT_TRUE(Step());
  EXPECT_EQ(StateOf(oldest), SequenceState::kDecoding);
  EXPECT_EQ(StateOf(small), SequenceState::kDecoding);
  EXPECT_EQ(scheduler_->figures().preemptions, 0u);
  StepAll();
  ExpectAllBlocksBack();
}

TEST_F(SchedulerPolicyTest, WhoGivesWayMakesRoomAndDoesSoOnce) {
  options_.max_num_seqs = 2;
  options_.policy.displaces = [](const SequenceView& candidate, const SequenceView&,
                                 const PolicyMoment&) { return !candidate.gave_way; };
  options_.policy.starts_before = Shorter;
  Start(40);
  Add(kLocal, 4, 20);
  const SequenceId second = Add(kLocal, 4, 20);
  ASSERT_TRUE(Step());
  for (int i = 0; i < 3; ++i) {
    const SequenceId shorter = Add(kLocal, 4, 2);
    scheduler_->Foresee(shorter, Expect(1));
    while (Last<FinishedEvent>(shorter) == nullptr) ASSERT_TRUE(Step());
    Step();  // who gave way goes on
  }
  EXPECT_EQ(scheduler_->figures().displaced, 1u);
  StepAll();
  EXPECT_EQ(Last<FinishedEvent>(second)->preemptions, 1);
  ExpectAllBlocksBack();
}

}  // namespace
}  // namespace baton
