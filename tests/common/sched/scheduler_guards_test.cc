// What the scheduler notices about answers that do not end: runaways, and special tokens that are
// drawn where EOS was to be expected.
#include <algorithm>

#include "common/base/token_boundary.h"
#include "tests/common/sched/scheduler_fixture.h"

namespace baton {
namespace {

constexpr int32_t kWindow = RunawayGuard::kWindow;
constexpr TokenId kFullStop = 54;
constexpr TokenId kSpecial = 60;

// The model says the same five tokens over and over, the last of which ends a sentence, and sees an
// end at the steps `chances_` only.
class SchedulerGuardsTest : public SchedulerTest {
 protected:
  SchedulerGuardsTest() {
    options_.token_boundaries.resize(100);
    options_.token_boundaries[kFullStop] = kEndsSentence;
    options_.special_ids = {kSpecial};
    options_.runaway = RunawayAction::kEnd;
    model_.force = [this](const kernels::SampleRow& row) {
      const auto step = static_cast<int32_t>(row.output.size()) + 1;
      const auto found = tokens_.find(step);
      return std::optional(found != tokens_.end() ? found->second : 50 + (step - 1) % 5);
    };
    model_.eos_prob = [this](const kernels::SampleRow& row) {
      return std::ranges::count(chances_, static_cast<int32_t>(row.output.size()) + 1) > 0 ? 0.5f
                                                                                           : 0.001f;
    };
  }
  void Start() { SchedulerTest::Start(500); }
  static SequenceSpec Long(int32_t max_tokens = 900) { return Spec(kLocal, 3, max_tokens); }

  // Runs `spec` to its end.
  SequenceId Run(SequenceSpec spec) {
    const SequenceId id = Add(std::move(spec));
    StepAll();
    return id;
  }
  FinishReason ReasonOf(SequenceId id) const { return Last<FinishedEvent>(id)->reason; }
  std::vector<TokenEvent> TokensOf(SequenceId id) const {
    std::vector<TokenEvent> tokens;
    for (const SchedEvent& event : events_) {
      const auto* token = std::get_if<TokenEvent>(&event.what);
      if (event.sequence == id && token != nullptr) tokens.push_back(*token);
    }
    return tokens;
  }
  // The steps, counted from 1, at which a runaway was told or ended.
  std::vector<int32_t> ToldAt(SequenceId id) const {
    std::vector<int32_t> steps;
    for (const TokenEvent& token : TokensOf(id)) {
      if (token.runaway != RunawayAction::kOff) steps.push_back(token.index + 1);
    }
    return steps;
  }
  // What a router that saw the first `count` tokens of `id` asks another worker for.
  SequenceSpec Replay(SequenceId id, size_t count) const {
    SequenceSpec spec = Long();
    spec.end_chance_step = 0;
    for (const TokenEvent& token : TokensOf(id)) {
      if (spec.generated.size() == count) break;
      spec.generated.push_back(token.token.token);
      if (token.token.end_chance) spec.end_chance_step = token.index + 1;
    }
    return spec;
  }

  std::vector<int32_t> chances_;
  std::map<int32_t, TokenId> tokens_;  // by step, in place of the loop's
};

TEST_F(SchedulerGuardsTest, ARunawayEndsWhenTheWindowIsFull) {
  Start();
  const SequenceId id = Run(Long());
  EXPECT_EQ(ReasonOf(id), FinishReason::kRunaway);
  EXPECT_FALSE(Last<FinishedEvent>(id)->stop_token);
  EXPECT_FALSE(Last<FinishedEvent>(id)->natural_end_step);
  EXPECT_EQ(TokensOf(id).size(), static_cast<size_t>(kWindow));
  EXPECT_EQ(ToldAt(id), std::vector<int32_t>{kWindow});
  EXPECT_EQ(TokensOf(id).back().runaway, RunawayAction::kEnd);
  EXPECT_TRUE(TokensOf(id).back().token.runaway_end);
  EXPECT_FALSE(TokensOf(id).front().token.runaway_end);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerGuardsTest, BeforeMinTokensNothingRunsAway) {
  constexpr int32_t kFewest = kWindow + 44;
  for (const RunawayAction action : {RunawayAction::kWarn, RunawayAction::kEnd}) {
    options_.runaway = action;
    Start();
    SequenceSpec spec = Long();
    spec.stop.min_tokens = kFewest;
    const SequenceId id = Run(std::move(spec));
    EXPECT_EQ(ToldAt(id), std::vector<int32_t>{kFewest});
    const bool ends = action == RunawayAction::kEnd;
    EXPECT_EQ(ReasonOf(id), ends ? FinishReason::kRunaway : FinishReason::kLength);
    SequenceSpec replay = Replay(id, kWindow + 10);
    replay.stop.min_tokens = kFewest;
    const SequenceId again = Run(std::move(replay));
    EXPECT_EQ(ToldAt(again), std::vector<int32_t>{kFewest});
    EXPECT_EQ(ReasonOf(again), ReasonOf(id));
  }
}

TEST_F(SchedulerGuardsTest, AWarningIsGivenOnceAndTheAnswerGoesOn) {
  options_.runaway = RunawayAction::kWarn;
  Start();
  const SequenceId id = Run(Long());
  EXPECT_EQ(ReasonOf(id), FinishReason::kLength);
  EXPECT_EQ(TokensOf(id).size(), 900u);
  EXPECT_EQ(ToldAt(id), std::vector<int32_t>{kWindow});
}

TEST_F(SchedulerGuardsTest, OffSaysNothing) {
  options_.runaway = RunawayAction::kOff;
  Start();
  const SequenceId id = Run(Long());
  EXPECT_EQ(ReasonOf(id), FinishReason::kLength);
  EXPECT_TRUE(ToldAt(id).empty());
}

TEST_F(SchedulerGuardsTest, AnAnswerThatIgnoresEosNeverRunsAway) {
  Start();
  for (const EosPolicy policy : {EosPolicy::kIgnoreContinue, EosPolicy::kIgnoreMask}) {
    SequenceSpec spec = Long();
    spec.stop.eos_policy = policy;
    const SequenceId id = Run(std::move(spec));
    EXPECT_EQ(ReasonOf(id), FinishReason::kLength);
    EXPECT_TRUE(ToldAt(id).empty());
  }
}

TEST_F(SchedulerGuardsTest, AChanceToEndStartsTheWindowAnew) {
  chances_ = {31, 100};  // behind a full stop, and inside a sentence
  Start();
  const SequenceId id = Run(Long());
  EXPECT_EQ(ToldAt(id), std::vector<int32_t>{31 + kWindow});
  for (const TokenEvent& token : TokensOf(id)) {
    EXPECT_EQ(token.token.end_chance, token.index + 1 == 31) << token.index;
  }
}

TEST_F(SchedulerGuardsTest, WithoutATableEveryStepIsAPlaceToEnd) {
  chances_ = {100};
  options_.token_boundaries.clear();
  Start();
  EXPECT_EQ(ToldAt(Run(Long())), std::vector<int32_t>{100 + kWindow});
}

TEST_F(SchedulerGuardsTest, AnAnswerThatBeginsToLoopEndsWhenTheWindowRepeatsEnough) {
  for (int32_t step = 1; step <= 300; ++step) tokens_[step] = 100 + step;
  Start();
  const SequenceId id = Run(Long());
  ASSERT_EQ(ToldAt(id).size(), 1u);
  // Of the 253 runs of four that the window holds, 37 may be distinct, five of which are the
  // loop's.
  EXPECT_EQ(ToldAt(id)[0], 300 + kWindow - 32);
}

TEST_F(SchedulerGuardsTest, EndsOfOtherKindsComeFirst) {
  tokens_[kWindow] = options_.eos_ids[0];
  Start();
  EXPECT_EQ(ReasonOf(Run(Long())), FinishReason::kStopEos);
  tokens_.clear();
  const SequenceId id = Run(Long(kWindow));
  EXPECT_EQ(ReasonOf(id), FinishReason::kLength);
  EXPECT_TRUE(ToldAt(id).empty());
}

TEST_F(SchedulerGuardsTest, AReplayEndsAtTheSameStepWhereverItBegins) {
  chances_ = {6, 41};
  Start();
  const SequenceId whole = Run(Long());
  ASSERT_EQ(ToldAt(whole), std::vector<int32_t>{41 + kWindow});
  for (const size_t accepted : {1, 5, 6, 40, 41, 42, 255, 256, 257, 296}) {
    const SequenceId id = Run(Replay(whole, accepted));
    EXPECT_EQ(ToldAt(id), ToldAt(whole)) << accepted;
    EXPECT_EQ(ReasonOf(id), FinishReason::kRunaway) << accepted;
  }
}

TEST_F(SchedulerGuardsTest, WhereChancesAreNotKnownAWholeWindowIsSeenFirst) {
  Start();
  SequenceSpec spec = Replay(Run(Long()), 200);
  spec.end_chance_step.reset();
  EXPECT_EQ(ToldAt(Run(std::move(spec))), std::vector<int32_t>{200 + kWindow});
}

TEST_F(SchedulerGuardsTest, AReplayDoesNotWarnAgain) {
  options_.runaway = RunawayAction::kWarn;
  Start();
  const SequenceId whole = Run(Long());
  EXPECT_TRUE(ToldAt(Run(Replay(whole, kWindow))).empty());
  EXPECT_EQ(ToldAt(Run(Replay(whole, kWindow - 1))), std::vector<int32_t>{kWindow});
}

TEST_F(SchedulerGuardsTest, TheWorkersOfAHandoffDecideAlike) {
  Start();
  const SequenceId whole = Run(Long());
  SequenceSpec first = Replay(whole, kWindow - 1);
  first.kind = kPrefill;
  EXPECT_EQ(ReasonOf(Run(first)), FinishReason::kRunaway) << "the first token is the last one";
  first = Replay(whole, 200);
  first.kind = kPrefill;
  const SequenceId prefill = Run(first);
  EXPECT_EQ(ReasonOf(prefill), FinishReason::kNone);
  ReturnLease(prefill);
  SequenceSpec rest = Replay(whole, 200);
  rest.kind = kReserved;
  const SequenceId id = Add(std::move(rest));
  Step();
  scheduler_->CommitImport(id, TokensOf(prefill).at(0).token, now_);
  StepAll();
  EXPECT_EQ(ToldAt(id), std::vector<int32_t>{kWindow});
  EXPECT_EQ(ReasonOf(id), FinishReason::kRunaway);
}

TEST_F(SchedulerGuardsTest, ASpecialTokenBehindASentenceIsNoted) {
  tokens_[11] = kSpecial;
  Start();
  EXPECT_EQ(Last<FinishedEvent>(Run(Long(20)))->passed_special, kSpecial);
}

TEST_F(SchedulerGuardsTest, SpecialTokensElsewhereAndThoseThatEndAreNot) {
  options_.eos_ids = {2};
  Start();
  tokens_[1] = kSpecial;   // before anything was said
  tokens_[13] = kSpecial;  // inside a sentence
  EXPECT_FALSE(Last<FinishedEvent>(Run(Long(20)))->passed_special);
  tokens_ = {{11, 2}};
  EXPECT_FALSE(Last<FinishedEvent>(Run(Long(20)))->passed_special);
  tokens_ = {{11, kSpecial}};
  SequenceSpec stops = Long(20);
  stops.stop.stop_token_ids = {kSpecial};
  EXPECT_FALSE(Last<FinishedEvent>(Run(std::move(stops)))->passed_special);
  SequenceSpec ignores = Long(20);
  ignores.stop.eos_policy = EosPolicy::kIgnoreContinue;
  EXPECT_FALSE(Last<FinishedEvent>(Run(std::move(ignores)))->passed_special);
}

}  // namespace
}  // namespace baton
