// Rows that feed what a guide forces: how much of it, what their draws give, and what cuts a run.
#include <gmock/gmock.h>

#include <cmath>

#include "common/base/status.h"
#include "tests/common/sched/scheduler_fixture.h"
#include "tests/fakes/scripted_guide.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using Steps = std::vector<std::vector<TokenId>>;

constexpr TokenId kForcedEos = 2;
const Steps kRunOfFour = {{20}, {21}, {22}, {23}, {24, 25}, {26, 27}};

class SchedulerForcedTest : public SchedulerTest {
 protected:
  SchedulerForcedTest() {
    options_.jump_forward = true;
    options_.max_draws = options_.max_num_seqs + 32;
  }

  SequenceId AddForced(const Steps& steps, SequenceSpec spec, size_t at_once = 64) {
    const auto guide = std::make_shared<ScriptedGuide>(steps, kForcedEos);
    guide->ForceAtMost(at_once);
    for (const TokenId token : spec.generated) guide->Take(token);
    spec.guide = {.kind = GuideKind::kRegex, .text = "scripted"};
    spec.follows = guide;
    return Add(std::move(spec));
  }
  std::vector<SampledToken> SamplesOf(SequenceId id) const {
    std::vector<SampledToken> samples;
    for (const SchedEvent& event : events_) {
      const auto* token = std::get_if<TokenEvent>(&event.what);
      if (event.sequence == id && token != nullptr) samples.push_back(token->token);
    }
    return samples;
  }
  std::vector<TokenId> TokensOf(SequenceId id) const {
    std::vector<TokenId> tokens;
    for (const SampledToken& sample : SamplesOf(id)) tokens.push_back(sample.token);
    return tokens;
  }
};

TEST_F(SchedulerForcedTest, ARunIsFedAtOnceAndTheTokenBehindItIsDrawn) {
  Start(16);
  const SequenceId id = AddForced(kRunOfFour, Spec(kLocal, 6, 20));
  const StepPlan prompt = Plan();
  EXPECT_THAT(prompt.rows[0].forced, ElementsAre(20)) << "the first token is drawn as ever";
  EXPECT_EQ(prompt.rows[0].guide, nullptr);
  Commit(prompt);
  const StepPlan plan = Plan();
  const StepRow& row = plan.rows[0];
  EXPECT_THAT(row.tokens, ElementsAre(20, 21, 22, 23));
  EXPECT_THAT(row.forced, ElementsAre(21, 22, 23));
  ASSERT_EQ(row.num_draws(), 4);
  EXPECT_NE(row.guide, nullptr);
  EXPECT_EQ(plan.shape.decode_tokens, 4);
  Commit(plan);
  const std::vector<SampledToken> samples = SamplesOf(id);
  ASSERT_EQ(samples.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(samples[i].forced, i < 4) << i;
    EXPECT_FALSE(std::isnan(samples[i].eos.eos_logprob)) << i;
    EXPECT_FALSE(samples[i].end_chance && samples[i].forced);
  }
  StepAll();
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kStopGrammar);
  EXPECT_EQ(scheduler_->figures().ids_forced, 4u);
  EXPECT_EQ(scheduler_->figures().ids_jumped, 3u);
  EXPECT_EQ(scheduler_->figures().ids_proposed, 0u);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerForcedTest, TokensAndFiguresAreThoseOfOneTokenAtATime) {
  Start(16);
  const SequenceId jumped = AddForced(kRunOfFour, Spec(kLocal, 6, 20));
  StepAll();
  const std::vector<SampledToken> at_once = SamplesOf(jumped);
  const uint64_t rows = scheduler_->figures().ids_jumped;
  EXPECT_EQ(rows, 3u);
  options_.jump_forward = false;
  Start(16);
  const SequenceId stepped = AddForced(kRunOfFour, Spec(kLocal, 6, 20));
  events_.clear();
  int steps = 0;
  while (Step()) ++steps;
  EXPECT_EQ(steps, static_cast<int>(at_once.size()));
  const std::vector<SampledToken> one_by_one = SamplesOf(stepped);
  ASSERT_EQ(at_once.size(), one_by_one.size());
  for (size_t i = 0; i < at_once.size(); ++i) {
    EXPECT_EQ(at_once[i].token, one_by_one[i].token) << i;
    EXPECT_EQ(at_once[i].forced, one_by_one[i].forced) << i;
    EXPECT_EQ(at_once[i].logprob, one_by_one[i].logprob) << i;
    EXPECT_EQ(at_once[i].eos.eos_logprob, one_by_one[i].eos.eos_logprob) << i;
    EXPECT_EQ(at_once[i].only_end, one_by_one[i].only_end) << i;
  }
  EXPECT_EQ(scheduler_->figures().ids_jumped, 0u);
  EXPECT_EQ(scheduler_->figures().ids_forced, 4u);
}

TEST_F(SchedulerForcedTest, NothingIsMeasuredWhereNobodyReadsIt) {
  for (const bool measures : {false, true}) {
    options_.measures_forced = measures;
    options_.max_draws = measures ? 40 : options_.max_num_seqs;
    Start(16);
    SequenceSpec spec = Spec(kLocal, 6, 20);
    spec.bare_forced = true;
    const SequenceId id = AddForced(kRunOfFour, spec);
    events_.clear();
    StepAll();
    const std::vector<SampledToken> samples = SamplesOf(id);
    ASSERT_GE(samples.size(), 5u);
    EXPECT_EQ(std::isnan(samples[2].eos.eos_logprob), !measures);
    EXPECT_FALSE(std::isnan(samples[4].eos.eos_logprob)) << "it was drawn";
    EXPECT_EQ(scheduler_->figures().ids_jumped, 3u) << "draws bound only what is measured";
  }
}

// A device's step of single tokens needs a draw in each row.
TEST_F(SchedulerForcedTest, ARowOfOneTokenHasItsDraw) {
  for (const bool jump : {false, true}) {
    SCOPED_TRACE(jump);
    options_.jump_forward = jump;
    Start(16);
    SequenceSpec spec = Spec(kLocal, 6, jump ? 2 : 20);
    spec.bare_forced = true;
    const SequenceId id = AddForced(kRunOfFour, spec);
    Step();
    const StepPlan plan = Plan();
    ASSERT_EQ(plan.rows[0].num_tokens(), 1);
    EXPECT_THAT(plan.rows[0].forced, ElementsAre(21));
    EXPECT_FALSE(plan.rows[0].bare_forced);
    Commit(plan);
    StepAll();
    EXPECT_FALSE(std::isnan(SamplesOf(id)[1].eos.eos_logprob));
  }
}

TEST_F(SchedulerForcedTest, APrefillMeasuresItsOneToken) {
  Start(16);
  SequenceSpec spec = Spec(kPrefill, 6, 20);
  spec.bare_forced = true;
  const SequenceId id = AddForced(kRunOfFour, spec);
  StepAll();
  ASSERT_THAT(TokensOf(id), ElementsAre(20));
  EXPECT_TRUE(SamplesOf(id)[0].forced);
  EXPECT_FALSE(std::isnan(SamplesOf(id)[0].eos.eos_logprob));
  ReturnLease(id);
  spec.kind = kReserved;
  const SequenceId there = AddForced(kRunOfFour, spec);
  ASSERT_TRUE(Plan().empty());
  CommitImport(there, 20);
  const StepPlan plan = Plan();
  EXPECT_THAT(plan.rows[0].tokens, ElementsAre(20, 21, 22, 23)) << "the rest of the run";
  Commit(plan);
  StepAll();
  EXPECT_EQ(Last<FinishedEvent>(there)->reason, FinishReason::kStopGrammar);
}

TEST_F(SchedulerForcedTest, MaxTokensCutsARun) {
  Start(16);
  const SequenceId id = AddForced(kRunOfFour, Spec(kLocal, 6, 3));
  Step();
  const StepPlan plan = Plan();
  EXPECT_THAT(plan.rows[0].tokens, ElementsAre(20, 21));
  EXPECT_THAT(plan.rows[0].forced, ElementsAre(21, 22));
  EXPECT_EQ(plan.rows[0].guide, nullptr) << "its last draw is forced, too";
  Commit(plan);
  EXPECT_THAT(TokensOf(id), ElementsAre(20, 21, 22));
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kLength);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerForcedTest, AStopIdInARunEndsTheAnswer) {
  Start(16);
  SequenceSpec spec = Spec(kLocal, 6, 20);
  spec.stop.stop_token_ids = {22};
  const SequenceId id = AddForced(kRunOfFour, spec);
  StepAll();
  EXPECT_THAT(TokensOf(id), ElementsAre(20, 21, 22));
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kStopToken);
  EXPECT_EQ(Last<FinishedEvent>(id)->stop_token, 22);
}

TEST_F(SchedulerForcedTest, TheBudgetsOfAStepCutARun) {
  Steps steps(30, {20});
  steps.push_back({24, 25});
  const auto tokens_of_third_step = [&](int32_t tokens, int32_t draws, bool bare) {
    options_.max_num_batched_tokens = tokens;
    options_.max_draws = options_.max_num_seqs + draws;
    Start(32);
    SequenceSpec spec = Spec(kLocal, 6, 60);
    spec.bare_forced = bare;
    const SequenceId id = AddForced(steps, spec);
    events_.clear();
    Step();
    const StepPlan plan = Plan();
    const int32_t fed = plan.rows[0].num_tokens();
    EXPECT_EQ(plan.rows[0].forced.size(), static_cast<size_t>(plan.rows[0].num_draws()));
    Commit(plan);
    StepAll();
    EXPECT_EQ(TokensOf(id).size(), 32u);
    return fed;
  };
  EXPECT_EQ(tokens_of_third_step(9, 32, false), 9);
  const int32_t rows_and_draws = options_.max_num_seqs - 1 + 4;
  EXPECT_EQ(tokens_of_third_step(100, 4, false), 1 + rows_and_draws);
  EXPECT_EQ(tokens_of_third_step(20, 0, true), 20);
}

TEST_F(SchedulerForcedTest, OnlyBlocksThatNobodyNeedsAreTaken) {
  Steps steps(12, {20});
  options_.limits.max_model_len = 24;
  Start(6);
  const SequenceId first = AddForced(steps, Spec(kLocal, 7, 16));
  const SequenceId second = AddForced(steps, Spec(kLocal, 7, 16));
  Step();
  EXPECT_EQ(pool_->num_free(), 2);
  StepAll();
  EXPECT_EQ(TokensOf(first).size(), 13u);
  EXPECT_EQ(TokensOf(second).size(), 13u);
  EXPECT_GT(scheduler_->figures().ids_jumped, 0u);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerForcedTest, ARunThatIsToldInPartsIsTheSame) {
  for (const size_t at_once : {1, 2, 3, 64}) {
    SCOPED_TRACE(at_once);
    Start(16);
    const SequenceId id = AddForced(kRunOfFour, Spec(kLocal, 6, 20), at_once);
    events_.clear();
    StepAll();
    const std::vector<TokenId> tokens = TokensOf(id);
    EXPECT_THAT(std::vector(tokens.begin(), tokens.begin() + 4), ElementsAre(20, 21, 22, 23));
    EXPECT_EQ(tokens.size(), 7u);
    EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kStopGrammar);
  }
}

TEST_F(SchedulerForcedTest, AReplayThatCutsARunFinishesItAlike) {
  Start(32);
  const SequenceId whole = AddForced(kRunOfFour, Spec(kLocal, 6, 20));
  StepAll();
  const std::vector<TokenId> tokens = TokensOf(whole);
  for (size_t cut = 1; cut < tokens.size(); ++cut) {
    SCOPED_TRACE(cut);
    SequenceSpec spec = Spec(kLocal, 6, 20);
    spec.generated.assign(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(cut));
    const SequenceId replay = AddForced(kRunOfFour, spec);
    StepAll();
    EXPECT_EQ(TokensOf(replay),
              std::vector(tokens.begin() + static_cast<ptrdiff_t>(cut), tokens.end()));
  }
}

TEST_F(SchedulerForcedTest, AFailureBehindARunComesBehindItsTokens) {
  Start(16);
  const auto guide = std::make_shared<ScriptedGuide>(kRunOfFour, kForcedEos);
  guide->ForceAtMost(64);
  guide->FailAt(4, InvalidArgument(Reason::kLimitExceeded, "guided_regex", "too complex"));
  SequenceSpec spec = Spec(kLocal, 6, 20);
  spec.guide = {.kind = GuideKind::kRegex, .text = "scripted"};
  spec.follows = guide;
  const SequenceId id = Add(std::move(spec));
  StepAll();
  EXPECT_THAT(TokensOf(id), ElementsAre(20, 21, 22, 23));
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kError);
  ExpectAllBlocksBack();
}

}  // namespace
}  // namespace baton
