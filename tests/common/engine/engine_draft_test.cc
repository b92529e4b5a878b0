// Proposals of a draft model: whatever it says, and whatever becomes of it, the answers are those
// of one token at a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/status.h"
#include "common/engine/draft_proposer.h"
#include "tests/common/engine/echo_run.h"

namespace baton {
namespace {

using std::chrono::milliseconds;

// A draft over the fake model.
struct Draft {
  explicit Draft(const FakeModelOptions& model = EchoModel(), int32_t num_blocks = 400,
                 int32_t most = 5)
      : arena(num_blocks, 8),
        proposer({.max_rows = 8, .prompt_tokens = 16, .most = most, .eos_ids = {2}}, arena.kv(),
                 std::make_unique<FakeRunner>(arena.kv(), model, control)) {}
  bool AllBlocksBack() const {
    return proposer.pool().num_free() == proposer.pool().total() && proposer.pool().IsConsistent();
  }

  FakeArena arena;
  std::shared_ptr<FakeRunnerControl> control = std::make_shared<FakeRunnerControl>();
  DraftProposer proposer;
};

// Knows less of the text than the model that verifies.
FakeModelOptions WorseModel() {
  FakeModelOptions model = EchoModel();
  model.force = [](const kernels::SampleRow& row) -> std::optional<TokenId> {
    if (row.output.size() % 4 == 3) return TokenId{7};
    return Echo(row);
  };
  return model;
}

class EngineDraftTest : public testing::TestWithParam<StepsOf> {
 protected:
  static void SetUpTestSuite() {
    plain_ = new EchoRun(RunEcho(0, StepsOf::kOneAtATime, 400, false));
  }
  static void TearDownTestSuite() { delete plain_; }
  static inline const EchoRun* plain_ = nullptr;
};

// The draws of a draft that is the same model show that it has the same coin and options, and that
// its KV is that of the history: anything else would give others.
TEST_P(EngineDraftTest, TheSameModelIsAlwaysRight) {
  for (const int32_t most : {1, 5}) {
    Draft draft(EchoModel(), 400, most);
    const EchoRun run = RunEcho(most, GetParam(), 400, false, &draft.proposer);
    ExpectSameRun(run, *plain_);
    EXPECT_EQ(run.figures.ids_accepted, run.figures.ids_proposed);
    EXPECT_GT(run.figures.ids_accepted, 300u);
    if (GetParam() == StepsOf::kOneAtATime) {
      EXPECT_LT(run.steps, plain_->steps);
    }
    EXPECT_GT(run.figures.draft.steps, 50u);
    EXPECT_EQ(run.figures.draft.blocks_total, 400);
    EXPECT_EQ(run.figures.draft.dropped, 0u);
    EXPECT_TRUE(draft.AllBlocksBack());
  }
}

TEST_P(EngineDraftTest, AWorseModelChangesNoToken) {
  Draft draft(WorseModel());
  const EchoRun run = RunEcho(5, GetParam(), 400, false, &draft.proposer);
  ExpectSameRun(run, *plain_);
  EXPECT_GT(run.figures.ids_accepted, 200u);
  EXPECT_GT(run.figures.ids_proposed, run.figures.ids_accepted + 50);
  EXPECT_TRUE(draft.AllBlocksBack());
}

TEST_P(EngineDraftTest, AlsoWhereTheModelsBlocksAreShort) {
  for (const bool caching : {false, true}) {
    Draft draft;
    const EchoRun run = RunEcho(5, GetParam(), 30, caching, &draft.proposer);
    ExpectSameRun(run, *plain_);
    EXPECT_GT(run.figures.preemptions, 0u);
    EXPECT_GT(run.figures.ids_accepted, 20u);
    EXPECT_EQ(run.figures.ids_accepted, run.figures.ids_proposed);
    EXPECT_TRUE(draft.AllBlocksBack());
  }
}

TEST_P(EngineDraftTest, WhereTheDraftsBlocksAreShortLessIsForetold) {
  uint64_t before = 0;
  for (const int32_t blocks : {1, 5, 14, 400}) {
    SCOPED_TRACE(blocks);
    Draft draft(EchoModel(), blocks);
    const EchoRun run = RunEcho(5, GetParam(), 400, false, &draft.proposer);
    ExpectSameRun(run, *plain_);
    EXPECT_EQ(run.figures.ids_accepted, run.figures.ids_proposed);
    EXPECT_GT(run.figures.ids_accepted, before);
    EXPECT_LE(run.figures.draft.blocks_used, blocks);
    EXPECT_TRUE(draft.AllBlocksBack());
    before = run.figures.ids_accepted;
  }
}

TEST_P(EngineDraftTest, AStepOfTheDraftThatFailsEndsNoAnswer) {
  Draft draft;
  draft.control->FailNextStep();
  const EchoRun run = RunEcho(5, GetParam(), 400, false, &draft.proposer);
  ExpectSameRun(run, *plain_);
  EXPECT_TRUE(run.figures.healthy);
  EXPECT_EQ(run.figures.ids_proposed, 0u);
  EXPECT_EQ(run.figures.draft.steps, 1u);
  EXPECT_TRUE(draft.AllBlocksBack());
}

INSTANTIATE_TEST_SUITE_P(Runners, EngineDraftTest, testing::ValuesIn(kAllSteps),
                         [](const auto& test) { return NameOf(test.param); });

EngineHarness::Options With(Draft* draft, int32_t batch = 32) {
  auto options = Defaults();
  options.engine.proposals = {.most = 5, .batch = batch};
  options.engine.proposals_from = &draft->proposer;
  return options;
}

// A decode worker's engine has nothing to do while the KV of a prompt is on its way.
TEST(EngineDraftLifeTest, ThePromptIsReadWhileItsKvIsOnTheWay) {
  FakeModelOptions model;
  Draft draft(model);
  EngineHarness prefill(Defaults());
  EngineHarness decode(With(&draft));
  SequenceSpec spec = MakeSpec(50, 20, 3, SequenceKind::kReserved);
  const SequenceId d = decode.Admit(spec);
  ASSERT_TRUE(decode.RunUntil([&] { return decode.seen(d).reserved.has_value(); }));
  ASSERT_TRUE(decode.PollUntil([](const EngineFigures& f) { return f.draft.tokens == 50; }));
  EXPECT_EQ(decode.figures().draft.steps, 4u) << "16 tokens in one go";
  spec.kind = SequenceKind::kPrefill;
  const SequenceId p = prefill.Admit(spec);
  ASSERT_TRUE(prefill.RunUntilOver(p));
  CopyBlocks(prefill.seen(p), decode.seen(d));
  decode.engine().CommitImport(d, prefill.seen(p).samples.at(0));
  prefill.engine().ReturnLease(p);
  ASSERT_TRUE(decode.RunUntilOver(d));
  EXPECT_EQ(decode.steps().front().decode_tokens, 4) << "the first step verifies three ids";
  EXPECT_EQ(decode.figures().ids_accepted, decode.figures().ids_proposed);
  EXPECT_EQ(decode.seen(d).tokens, [&] {
    EngineHarness alone(Defaults());
    spec.kind = SequenceKind::kLocal;
    std::vector<TokenId> tokens = alone.Generate(spec);
    tokens.erase(tokens.begin());
    return tokens;
  }());
  EXPECT_TRUE(decode.AllBlocksBack());
}

TEST(EngineDraftLifeTest, WhereTooManyAnswersRunTheDraftRests) {
  Draft draft(FakeModelOptions{});
  uint64_t steps_while_full = 0;
  EngineHarness harness(With(&draft, /*batch=*/4));
  harness.control().set_on_step([&](const StepPlan& plan) {
    if (plan.shape.decode_sequences == 6) steps_while_full = draft.control->steps();
  });
  harness.control().Pause();  // the first step ends when all of them are there
  std::vector<SequenceId> ids;
  for (int32_t i = 0; i < 6; ++i) ids.push_back(harness.Admit(MakeSpec(4, 20 + 4 * (i / 4), i)));
  harness.control().Resume();
  for (const SequenceId id : ids) ASSERT_TRUE(harness.RunUntilOver(id));
  EXPECT_LT(steps_while_full, 10u) << "of what was read before";
  EXPECT_GT(harness.figures().ids_accepted, 0u) << "once four of them were over";
  harness.engine().Stop();
  EXPECT_TRUE(draft.AllBlocksBack());
}

TEST(EngineDraftLifeTest, ADraftThatHangsIsAStall) {
  base::ManualClock clock;
  Draft draft(FakeModelOptions{});
  auto options = With(&draft);
  options.clock = &clock;
  options.engine.stall_timeout = milliseconds(80);
  EngineHarness harness(options);
  draft.control->Pause();
  harness.Admit(MakeSpec(10, 50));
  harness.AdvanceUntilFault(&clock);
  const auto fault = harness.fault();
  draft.control->Resume();
  harness.engine().Stop();
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(ReasonOf(*fault), Reason::kDeviceFault);
}

// Five steps of it take longer than the engine's patience, and each is a sign of life.
TEST(EngineDraftLifeTest, ASlowDraftThatGetsOnIsNoStall) {
  base::ManualClock clock;
  Draft draft(FakeModelOptions{});
  draft.control->set_on_step([&](const StepPlan&) {
    clock.Advance(milliseconds(60));
    std::this_thread::sleep_for(milliseconds(25));  // the watchdog looks every ten
  });
  auto options = With(&draft);
  options.clock = &clock;
  options.engine.stall_timeout = milliseconds(80);
  EngineHarness harness(options);
  const SequenceId id = harness.Admit(MakeSpec(10, 12));
  ASSERT_TRUE(harness.RunUntilOver(id));
  EXPECT_FALSE(harness.fault().has_value());
  EXPECT_GT(harness.figures().draft.steps, 5u);
}

// What the engine asks itself, when all that it is asked for overflows, runs beside the draft.
TEST(EngineDraftLifeTest, TheEngineTestsItself) {
  Draft draft(FakeModelOptions{});
  auto options = With(&draft);
  options.engine.overlap = true;
  options.model.spoils = [](const kernels::SampleRow& row) { return row.prompt.size() == 10; };
  EngineHarness harness(options);
  for (int i = 0; i < 20; ++i) {
    const SequenceId id = harness.Admit(MakeSpec(10, 5, i));
    ASSERT_TRUE(harness.RunUntilOver(id));
  }
  EXPECT_EQ(harness.Generate(MakeSpec(11, 5)).size(), 5u);
  EXPECT_FALSE(harness.fault().has_value());
}

TEST(EngineDraftLifeTest, CancelledAndLateSequencesGiveTheDraftsBlocksBack) {
  Draft draft(FakeModelOptions{});
  int32_t most_used = 0;
  {
    EngineHarness harness(With(&draft));
    harness.control().set_on_step([&](const StepPlan&) {  // on the engine's thread
      most_used = std::max(most_used, draft.proposer.pool().num_used());
      std::this_thread::sleep_for(milliseconds(2));
    });
    const SequenceId reserved = harness.Admit(MakeSpec(40, 20, 1, SequenceKind::kReserved));
    const SequenceId local = harness.Admit(MakeSpec(12, 200, 2));
    ASSERT_TRUE(harness.RunUntil([&] { return harness.seen(local).tokens.size() > 20; }));
    harness.engine().Cancel(local);
    ASSERT_TRUE(harness.RunUntilOver(local));
    harness.engine().Cancel(reserved);
    ASSERT_TRUE(harness.RunUntilOver(reserved));
    harness.engine().ReturnLease(reserved);
    EXPECT_TRUE(harness.PollUntil([](const EngineFigures& f) { return f.draft.blocks_used == 0; }));
  }
  EXPECT_GE(most_used, 5 + 3) << "40 tokens and more than 20";
  EXPECT_TRUE(draft.AllBlocksBack());
}

}  // namespace
}  // namespace baton
