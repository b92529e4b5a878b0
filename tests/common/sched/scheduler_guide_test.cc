// Sequences with a guide: whose mask a row carries, when rows sit out, how answers end.
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/sample/request_limits.h"
#include "tests/common/sched/scheduler_fixture.h"
#include "tests/fakes/scripted_guide.h"

namespace baton {
namespace {

class SchedulerGuideTest : public SchedulerTest {
 protected:
  static constexpr TokenId kEos = 2;

  SequenceId AddGuided(std::shared_ptr<ScriptedGuide> guide, SequenceSpec spec) {
    spec.guide = {.kind = GuideKind::kRegex, .text = "scripted"};
    spec.follows = std::move(guide);
    return Add(std::move(spec));
  }
  std::vector<TokenId> TokensOf(SequenceId id) const {
    std::vector<TokenId> tokens;
    for (const SchedEvent& event : events_) {
      const auto* token = std::get_if<TokenEvent>(&event.what);
      if (event.sequence == id && token != nullptr) tokens.push_back(token->token.token);
    }
    return tokens;
  }
};

TEST_F(SchedulerGuideTest, TokensAreAmongThoseAllowedAndTheEndIsTheGrammars) {
  Start(16);
  const auto guide =
      std::make_shared<ScriptedGuide>(std::vector<std::vector<TokenId>>{{7}, {8, 9}, {7}}, kEos);
  const SequenceId id = AddGuided(guide, Spec(kLocal, 5, 20));
  StepAll();
  const std::vector<TokenId> tokens = TokensOf(id);
  ASSERT_EQ(tokens.size(), 4u);
  EXPECT_EQ(tokens[0], 7);
  EXPECT_EQ(tokens[3], kEos);
  EXPECT_EQ(guide->taken(), std::vector(tokens.begin(), tokens.end() - 1));
  const auto* finished = Last<FinishedEvent>(id);
  ASSERT_NE(finished, nullptr);
  EXPECT_EQ(finished->reason, FinishReason::kStopGrammar);
  EXPECT_EQ(finished->stop_token, kEos);
  EXPECT_EQ(finished->natural_end_step, std::nullopt);
  EXPECT_TRUE(Last<TokenEvent>(id)->token.only_end);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerGuideTest, AnEosAmongOthersIsTheModels) {
  model_.force = [](const kernels::SampleRow&) { return std::optional(kEos); };
  Start(16);
  const auto guide =
      std::make_shared<ScriptedGuide>(std::vector<std::vector<TokenId>>{{7}, {kEos, 8}}, kEos);
  const SequenceId id = AddGuided(guide, Spec(kLocal, 5, 20));
  StepAll();
  EXPECT_EQ(TokensOf(id), (std::vector<TokenId>{7, kEos}));
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kStopEos);
  EXPECT_EQ(Last<FinishedEvent>(id)->natural_end_step, 2);
}

TEST_F(SchedulerGuideTest, TheLimitCutsAnUnfinishedAnswer) {
  Start(16);
  const auto guide =
      std::make_shared<ScriptedGuide>(std::vector<std::vector<TokenId>>(9, {7}), kEos);
  const SequenceId id = AddGuided(guide, Spec(kLocal, 5, 3));
  StepAll();
  EXPECT_EQ(TokensOf(id), (std::vector<TokenId>{7, 7, 7}));
  EXPECT_EQ(Last<FinishedEvent>(id)->reason, FinishReason::kLength);
}

TEST_F(SchedulerGuideTest, AMaskIsPreparedBeforeTheStepThatNeedsIt) {
  Start(16);
  const auto guide =
      std::make_shared<ScriptedGuide>(std::vector<std::vector<TokenId>>(9, {7}), kEos);
  AddGuided(guide, Spec(kLocal, 5, 9));
  EXPECT_EQ(guide->prepared(), 1) << "while it waits";
  const StepPlan plan = Plan();
  EXPECT_EQ(guide->prepared(), 2);
  ASSERT_EQ(plan.rows.size(), 1u);
  EXPECT_EQ(plan.rows[0].guide, guide.get());
  Commit(plan);
  EXPECT_EQ(guide->prepared(), 3);
  EXPECT_EQ(guide->taken(), std::vector<TokenId>{7});
}

TEST_F(SchedulerGuideTest, RowsThatDoNotDrawNeedNoMask) {
  options_.max_prefill_tokens = 4;
  Start(16);
  const auto guide =
      std::make_shared<ScriptedGuide>(std::vector<std::vector<TokenId>>(9, {7}), kEos);
  AddGuided(guide, Spec(kLocal, 7, 5));
  const StepPlan chunk = Plan();
  EXPECT_EQ(chunk.rows[0].guide, nullptr);
  EXPECT_EQ(guide->prepared(), 1) << "when it came, and not by its row";
  Commit(chunk);
  EXPECT_NE(Plan().rows[0].guide, nullptr);
}

TEST_F(SchedulerGuideTest, SitsOutTheSecondStepInFlight) {
  options_.max_steps_in_flight = 2;
  Start(32);
  const auto guide =
      std::make_shared<ScriptedGuide>(std::vector<std::vector<TokenId>>(9, {7}), kEos);
  const SequenceId guided = AddGuided(guide, Spec(kLocal, 5, 5));
  const SequenceId free = Add(kLocal, 5, 5);
  const StepPlan first = Plan();
  EXPECT_EQ(first.rows.size(), 2u);
  const StepPlan second = Plan();
  ASSERT_EQ(second.rows.size(), 1u);
  EXPECT_EQ(second.rows[0].sequence, free);
  Commit(first);
  const StepPlan third = Plan();
  EXPECT_EQ(third.rows.size(), 2u);
  Commit(second);
  Commit(third);
  EXPECT_EQ(TokensOf(guided), (std::vector<TokenId>{7, 7}));
}

TEST_F(SchedulerGuideTest, ASlowGuideHoldsUpNobodyButItself) {
  Start(32);
  const auto guide =
      std::make_shared<ScriptedGuide>(std::vector<std::vector<TokenId>>(9, {7}), kEos);
  const SequenceId slow = AddGuided(guide, Spec(kLocal, 5, 6));
  const SequenceId free = Add(kLocal, 5, 4);
  ASSERT_TRUE(Step());
  guide->SetHoldsUp(true);
  const StepPlan without = Plan();
  ASSERT_EQ(without.rows.size(), 1u);
  EXPECT_EQ(without.rows[0].sequence, free);
  Commit(without);
  guide->SetHoldsUp(false);
  ASSERT_TRUE(Step());
  EXPECT_EQ(TokensOf(slow).size(), 2u);
  EXPECT_EQ(TokensOf(free).size(), 3u);
  // Where nothing else runs the step waits for it.
  guide->SetHoldsUp(true);
  StepAll();
  EXPECT_EQ(TokensOf(slow).size(), 6u);
}

TEST_F(SchedulerGuideTest, OfSlowGuidesAloneAStepWaitsForOneInTurn) {
  Start(32);
  std::vector<std::shared_ptr<ScriptedGuide>> guides;
  std::vector<SequenceId> ids;
  for (int i = 0; i < 3; ++i) {
    guides.push_back(
        std::make_shared<ScriptedGuide>(std::vector<std::vector<TokenId>>(9, {7}), kEos));
    ids.push_back(AddGuided(guides.back(), Spec(kLocal, 5, 6)));
  }
  ASSERT_TRUE(Step());
  for (const auto& guide : guides) guide->SetHoldsUp(true);
  for (size_t turn = 0; turn < 6; ++turn) {
    const StepPlan plan = Plan();
    ASSERT_EQ(plan.rows.size(), 1u);
    EXPECT_EQ(plan.rows[0].sequence, ids[turn % 3]) << turn;
    Commit(plan);
  }
}

// Nobody knows beforehand which guide is slow; what a plan waits for is one of them at most.
TEST_F(SchedulerGuideTest, APlanWaitsForTheFirstWorkOfOneSlowGuide) {
  Start(64);
  std::vector<std::shared_ptr<ScriptedGuide>> guides;
  for (int i = 0; i < 4; ++i) {
    guides.push_back(
        std::make_shared<ScriptedGuide>(std::vector<std::vector<TokenId>>(9, {7}), kEos));
    guides.back()->SlowAtFirst();
    AddGuided(guides.back(), Spec(kLocal, 5, 6));
  }
  const SequenceId free = Add(kLocal, 5, 8);
  const auto known = [&] {
    return std::ranges::count_if(guides, [](const auto& g) { return g->knows_forced(); });
  };
  for (int plan = 1; plan <= 4; ++plan) {
    ASSERT_TRUE(Step());
    EXPECT_EQ(known(), plan);
    EXPECT_EQ(TokensOf(free).size(), static_cast<size_t>(plan));
  }
  StepAll();
  ExpectAllBlocksBack();
}

TEST_F(SchedulerGuideTest, ChunksThatDrawNothingWaitForNoGuide) {
  options_.max_prefill_tokens = 4;
  Start(32);
  const auto guide =
      std::make_shared<ScriptedGuide>(std::vector<std::vector<TokenId>>(9, {7}), kEos);
  guide->SlowAtFirst();
  AddGuided(guide, Spec(kLocal, 10, 5));
  for (int chunk = 0; chunk < 2; ++chunk) {
    ASSERT_TRUE(Step());
    EXPECT_FALSE(guide->knows_forced()) << chunk;
  }
  ASSERT_TRUE(Step());
  EXPECT_TRUE(guide->knows_forced());
}

TEST_F(SchedulerGuideTest, NoStepWaitsForASlowGuideBehindOneThatIsOut) {
  options_.max_steps_in_flight = 2;
  Start(32);
  const auto guide =
      std::make_shared<ScriptedGuide>(std::vector<std::vector<TokenId>>(9, {7}), kEos);
  AddGuided(guide, Spec(kLocal, 5, 6));
  SequenceSpec spec = Spec(kLocal, 5, 4);
  spec.sampling.no_repeat_ngram_size = 3;
  const SequenceId free = Add(std::move(spec));
  ASSERT_TRUE(Step());
  guide->SetHoldsUp(true);
  const StepPlan first = Plan();
  ASSERT_EQ(first.rows.size(), 1u);
  EXPECT_EQ(first.rows[0].sequence, free);
  EXPECT_TRUE(Plan().empty());
  Commit(first);
}

TEST_F(SchedulerGuideTest, AMaskThatFailsEndsItsRequestAndNoOther) {
  Start(32);
  const auto guide =
      std::make_shared<ScriptedGuide>(std::vector<std::vector<TokenId>>(9, {7}), kEos);
  guide->FailAt(2, InvalidArgument(Reason::kLimitExceeded, "guided_regex", "too complex"));
  const SequenceId failing = AddGuided(guide, Spec(kLocal, 5, 9));
  const SequenceId free = Add(kLocal, 5, 9);
  StepAll();
  EXPECT_EQ(TokensOf(failing), (std::vector<TokenId>{7, 7}));
  const auto* finished = Last<FinishedEvent>(failing);
  EXPECT_EQ(finished->reason, FinishReason::kError);
  EXPECT_EQ(ReasonOf(finished->status), Reason::kLimitExceeded);
  EXPECT_EQ(StateOf(failing), SequenceState::kFailed);
  EXPECT_EQ(TokensOf(free).size(), 9u);
  ExpectAllBlocksBack();
}

TEST_F(SchedulerGuideTest, APrefillHandsItsStateOn) {
  Start(16);
  const auto here =
      std::make_shared<ScriptedGuide>(std::vector<std::vector<TokenId>>{{7}, {8}}, kEos);
  const SequenceId prefill = AddGuided(here, Spec(kPrefill, 5, 9));
  StepAll();
  EXPECT_EQ(TokensOf(prefill), std::vector<TokenId>{7});
  ReturnLease(prefill);
  const auto there =
      std::make_shared<ScriptedGuide>(std::vector<std::vector<TokenId>>{{7}, {8}}, kEos);
  const SequenceId decode = AddGuided(there, Spec(kReserved, 5, 9));
  ASSERT_TRUE(Plan().empty());
  CommitImport(decode, 7);
  StepAll();
  EXPECT_EQ(TokensOf(decode), (std::vector<TokenId>{8, kEos}));
  EXPECT_EQ(Last<FinishedEvent>(decode)->reason, FinishReason::kStopGrammar);
}

TEST_F(SchedulerGuideTest, PoliciesThatIgnoreEosAreRefusedBesideIt) {
  SequenceSpec spec = Spec(kLocal, 5, 9);
  spec.guide = {.kind = GuideKind::kJsonObject, .text = ""};
  options_.limits.pool_tokens = 100;
  EXPECT_TRUE(CheckSpec(spec, options_.limits).ok());
  for (const EosPolicy policy : {EosPolicy::kIgnoreContinue, EosPolicy::kIgnoreMask}) {
    spec.stop.eos_policy = policy;
    const absl::Status refused = CheckSpec(spec, options_.limits);
    EXPECT_EQ(ReasonOf(refused), Reason::kConflictingOptions);
    EXPECT_EQ(DetailOf(refused).field, "json_object");
  }
  spec.stop.eos_policy = EosPolicy::kHonor;
}

// A router of another version may know another table.
TEST_F(SchedulerGuideTest, GuidesBeyondTheTableOfLimitsAreRefused) {
  const auto most = [](RequestLimit limit) {
    return static_cast<int>(RequestLimits()[static_cast<size_t>(limit)].most);
  };
  const auto choices = [](int count, int bytes) {
    std::string list = "[\"" + std::string(bytes, 'a') + "\"";
    for (int i = 1; i < count; ++i) list += ",\"b\"";
    return list + "]";
  };
  const auto text = [](int bytes) { return std::string(bytes, 'a'); };
  const int json = most(RequestLimit::kGuidedJson);
  const int regex = most(RequestLimit::kGuidedRegex);
  const int grammar = most(RequestLimit::kGuidedGrammar);
  const int count = most(RequestLimit::kGuidedChoices);
  const int bytes = most(RequestLimit::kGuidedChoiceBytes);
  struct Case {
    GuideKind kind;
    std::string largest;
    std::string larger;
    int limit;
  };
  const Case cases[] = {
      {GuideKind::kJsonSchema, text(json), text(json + 1), json},
      {GuideKind::kRegex, text(regex), text(regex + 1), regex},
      {GuideKind::kGrammar, text(grammar), text(grammar + 1), grammar},
      {GuideKind::kChoice, choices(count, bytes), choices(count + 1, bytes), count},
      {GuideKind::kChoice, choices(count, bytes), choices(count, bytes + 1), bytes},
  };
  options_.limits.pool_tokens = 100;
  for (const Case& each : cases) {
    SequenceSpec spec = Spec(kLocal, 5, 9);
    spec.guide = {.kind = each.kind, .text = each.largest};
    EXPECT_TRUE(CheckSpec(spec, options_.limits).ok()) << CheckSpec(spec, options_.limits);
    spec.guide.text = each.larger;
    const ErrorDetail detail = DetailOf(CheckSpec(spec, options_.limits));
    EXPECT_EQ(detail.reason, Reason::kLimitExceeded);
    EXPECT_EQ(detail.field, "spec." + std::string(GuideFieldName(each.kind)));
    const std::vector<std::pair<std::string, std::string>> values = {
        {"have", std::to_string(each.limit + 1)}, {"limit", std::to_string(each.limit)}};
    EXPECT_EQ(detail.values, values);
  }
}

// What stands behind a zero byte, or in another form, must not hide from the count.
TEST_F(SchedulerGuideTest, ChoicesThatCannotBeCountedAreRefused) {
  options_.limits.pool_tokens = 100;
  for (const std::string text : {"", "[\"a\"", "['a']", "[\"a\"] \"b\"", "[\"\xff\"]"}) {
    SequenceSpec spec = Spec(kLocal, 5, 9);
    spec.guide = {.kind = GuideKind::kChoice, .text = text};
    const absl::Status refused = CheckSpec(spec, options_.limits);
    EXPECT_EQ(ReasonOf(refused), Reason::kInvalidGuide) << text;
    EXPECT_EQ(DetailOf(refused).field, "guided_choice");
  }
}

}  // namespace
}  // namespace baton
