// Each limit of the engine bites, and what cannot run is refused with its reason.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/sched/step_times.h"
#include "tests/common/engine/harness.h"

namespace baton {
namespace {

using std::chrono::milliseconds;

Reason Refusal(EngineHarness* harness, SequenceSpec spec) {
  auto id = harness->engine().Admit(std::move(spec));
  return id.ok() ? Reason::kNone : ReasonOf(id.status());
}

int32_t Most(const std::vector<StepEvent>& steps, int32_t StepEvent::*figure) {
  int32_t most = 0;
  for (const StepEvent& step : steps) most = std::max(most, step.*figure);
  return most;
}

// Admits `count` requests while the first step stands still, then runs all to their ends.
std::vector<SequenceId> RunTogether(EngineHarness* harness, int32_t count, int32_t prompt,
                                    int32_t max_tokens) {
  harness->control().Pause();
  std::vector<SequenceId> ids;
  for (int32_t i = 0; i < count; ++i) {
    ids.push_back(harness->Admit(MakeSpec(prompt, max_tokens, i)));
  }
  harness->control().Resume();
  for (const SequenceId id : ids) EXPECT_TRUE(harness->RunUntilOver(id));
  harness->ReadAll();
  return ids;
}

TEST(EngineLimitsTest, MaxModelLen) {
  auto options = Defaults();
  options.engine.max_model_len = 50;
  EngineHarness harness(options);
  EXPECT_EQ(Refusal(&harness, MakeSpec(40, 11)), Reason::kTooLong);
  EXPECT_EQ(Refusal(&harness, MakeSpec(50, 0)), Reason::kTooLong);
  EXPECT_EQ(harness.Generate(MakeSpec(40, 10)).size(), 10u);
  EXPECT_EQ(harness.Generate(MakeSpec(45, 0)).size(), 5u);  // as many as fit
}

TEST(EngineLimitsTest, KvCacheTokens) {
  auto options = Defaults();
  options.num_blocks = 10;  // 40 tokens
  EngineHarness harness(options);
  EXPECT_EQ(Refusal(&harness, MakeSpec(30, 11)), Reason::kTooLong);
  EXPECT_EQ(harness.Generate(MakeSpec(30, 10)).size(), 10u);
  EXPECT_EQ(harness.Generate(MakeSpec(33, 0)).size(), 7u);
}

TEST(EngineLimitsTest, MaxNumSeqs) {
  auto options = Defaults();
  options.engine.max_num_seqs = 3;
  EngineHarness harness(options);
  RunTogether(&harness, 7, 8, 10);
  EXPECT_EQ(harness.figures().largest_batch, 3);
}

TEST(EngineLimitsTest, MaxPrefillTokens) {
  auto options = Defaults();
  options.engine.max_prefill_tokens = 13;
  EngineHarness harness(options);
  RunTogether(&harness, 4, 30, 5);
  EXPECT_EQ(Most(harness.steps(), &StepEvent::prefill_tokens), 13);
  EXPECT_GE(harness.figures().prefill_chunks, 8u);
}

TEST(EngineLimitsTest, MaxPrefillTokensAlsoBatchesShortPrompts) {
  auto options = Defaults();
  options.engine.max_prefill_tokens = 24;
  EngineHarness harness(options);
  RunTogether(&harness, 7, 8, 5);
  EXPECT_EQ(Most(harness.steps(), &StepEvent::prefill_sequences), 3);
}

TEST(EngineLimitsTest, MaxNumBatchedTokens) {
  for (const int32_t budget : {1, 2, 5}) {
    auto options = Defaults();
    options.engine.max_num_batched_tokens = budget;
    EngineHarness harness(options);
    RunTogether(&harness, 4, 9, 5);
    int32_t most = 0;
    for (const StepEvent& step : harness.steps()) {
      most = std::max(most, step.prefill_tokens + step.decode_tokens);
    }
    EXPECT_EQ(most, budget);
  }
}

TEST(EngineLimitsTest, FiguresTellHowLongStepsTakeOnceTheyDid) {
  EngineHarness harness(Defaults());
  for (int64_t i = 0; i < StepTimes::kEnough; ++i) {
    EXPECT_EQ(harness.figures().prompt_token_s, 0);
    harness.Generate(MakeSpec(3, 1));  // too short for a cached block
  }
  EXPECT_GT(harness.figures().prompt_token_s, 0);
  harness.Generate(MakeSpec(3, 10));
  EXPECT_GT(harness.figures().step_s, 0);
}

TEST(EngineLimitsTest, EnablePrefixCaching) {
  for (const bool on : {false, true}) {
    auto options = Defaults();
    options.engine.enable_prefix_caching = on;
    EngineHarness harness(options);
    harness.Generate(MakeSpec(20, 3));
    const SequenceId id = harness.Admit(MakeSpec(20, 3));
    ASSERT_TRUE(harness.RunUntilOver(id));
    EXPECT_EQ(harness.seen(id).finished->cached_tokens, on ? 16 : 0);
    EXPECT_EQ(harness.figures().prefix_hits, on ? 16u : 0u);
    EXPECT_EQ(harness.figures().prompt_tokens_computed, on ? 24u : 40u);
  }
}

TEST(EngineLimitsTest, PrefillBatchWait) {
  base::ManualClock clock;
  auto options = Defaults();
  options.clock = &clock;
  options.engine.prefill_batch_wait = milliseconds(50);
  options.engine.max_prefill_tokens = 20;
  EngineHarness harness(options);
  const SequenceId first = harness.Admit(MakeSpec(10, 1, 0));
  EXPECT_TRUE(harness.PollUntil([](const EngineFigures& f) { return f.waiting == 1; }));
  EXPECT_EQ(harness.figures().steps, 0u);
  const SequenceId second = harness.Admit(MakeSpec(10, 1, 1));  // the batch is full
  ASSERT_TRUE(harness.RunUntilOver(first) && harness.RunUntilOver(second));
  harness.PollUntil([](const EngineFigures& f) { return f.steps == 1; });
  EXPECT_EQ(harness.figures().steps, 1u);
  const SequenceId alone = harness.Admit(MakeSpec(10, 1, 2));
  EXPECT_TRUE(harness.PollUntil([](const EngineFigures& f) { return f.waiting == 1; }));
  clock.Advance(milliseconds(50));
  EXPECT_TRUE(harness.RunUntilOver(alone));
}

TEST(EngineLimitsTest, MaxNumQueuedReqs) {
  auto options = Defaults();
  options.engine.max_num_queued_reqs = 2;
  options.engine.max_num_seqs = 1;
  EngineHarness harness(options);
  harness.control().Pause();
  std::vector<SequenceId> ids = {harness.Admit(MakeSpec(4, 5, 0))};
  ASSERT_TRUE(harness.PollUntil([](const EngineFigures& f) { return f.running == 1; }));
  ids.push_back(harness.Admit(MakeSpec(4, 5, 1)));
  ids.push_back(harness.Admit(MakeSpec(4, 5, 2, SequenceKind::kLocal)));
  for (const auto kind : {SequenceKind::kLocal, SequenceKind::kPrefill, SequenceKind::kReserved}) {
    auto refused = harness.engine().Admit(MakeSpec(4, 5, 3, kind));
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(ReasonOf(refused.status()), Reason::kFull);
  }
  harness.control().Resume();
  for (const SequenceId id : ids) EXPECT_TRUE(harness.RunUntilOver(id));
  EXPECT_EQ(Refusal(&harness, MakeSpec(4, 5, 4)), Reason::kNone);
}

TEST(EngineLimitsTest, TheLineThatAPolicyChoosesFromHasRoomBesideTheQueue) {
  auto options = Defaults();
  options.engine.max_num_queued_reqs = 2;
  options.engine.max_num_seqs = 1;
  options.engine.policy.chooses = true;
  options.engine.policy.settings.line = 3;
  EngineHarness harness(options);
  harness.control().Pause();
  std::vector<SequenceId> ids = {harness.Admit(MakeSpec(4, 5, 0))};
  ASSERT_TRUE(harness.PollUntil([](const EngineFigures& f) { return f.running == 1; }));
  for (int i = 1; i <= 5; ++i) ids.push_back(harness.Admit(MakeSpec(4, 5, i)));
  EXPECT_EQ(ReasonOf(harness.engine().Admit(MakeSpec(4, 5, 6)).status()), Reason::kFull);
  harness.control().Resume();
  for (const SequenceId id : ids) EXPECT_TRUE(harness.RunUntilOver(id));
}

TEST(EngineLimitsTest, AFullReservationLineRefuses) {
  auto options = Defaults();
  options.engine.max_num_queued_reqs = 2;
  options.num_blocks = 5;
  EngineHarness harness(options);
  const SequenceId holder = harness.Admit(MakeSpec(15, 4, 0, SequenceKind::kReserved));
  ASSERT_TRUE(harness.RunUntil([&] { return harness.seen(holder).reserved.has_value(); }));
  const SequenceId second = harness.Admit(MakeSpec(15, 4, 1, SequenceKind::kReserved));
  harness.Admit(MakeSpec(15, 4, 2, SequenceKind::kReserved));
  EXPECT_EQ(Refusal(&harness, MakeSpec(15, 4, 3, SequenceKind::kReserved)), Reason::kFull);
  harness.engine().Cancel(holder);
  harness.engine().ReturnLease(holder);
  EXPECT_TRUE(harness.RunUntil([&] { return harness.seen(second).reserved.has_value(); }));
}

TEST(EngineLimitsTest, VocabSize) {
  auto options = Defaults();
  options.engine.vocab_size = 1000;
  EngineHarness harness(options);
  SequenceSpec spec = MakeSpec(4, 5);
  spec.prompt[2] = 1000;
  EXPECT_EQ(Refusal(&harness, spec), Reason::kInvalidTokenId);
  spec.prompt[2] = -1;
  EXPECT_EQ(Refusal(&harness, spec), Reason::kInvalidTokenId);
  spec.prompt.clear();
  EXPECT_EQ(Refusal(&harness, spec), Reason::kEmptyPrompt);
  spec = MakeSpec(4, -1);
  EXPECT_EQ(Refusal(&harness, spec), Reason::kInvalidMaxTokens);
  spec = MakeSpec(4, 5);
  spec.sampling.temperature = -1;
  EXPECT_EQ(Refusal(&harness, spec), Reason::kInvalidSampling);
}

TEST(EngineLimitsTest, EveryEosIdEndsARequest) {
  for (const TokenId eos : {2, 7}) {
    auto options = Defaults();
    options.engine.eos_ids = {2, 7};
    options.model.force = [eos](const kernels::SampleRow& row) -> std::optional<TokenId> {
      return row.output.size() == 3 ? std::optional(eos) : std::nullopt;
    };
    EngineHarness harness(options);
    const SequenceId id = harness.Admit(MakeSpec(6, 20));
    ASSERT_TRUE(harness.RunUntilOver(id));
    EXPECT_EQ(harness.seen(id).finished->reason, FinishReason::kStopEos);
    EXPECT_EQ(harness.seen(id).finished->stop_token, eos);
    EXPECT_EQ(harness.seen(id).tokens.size(), 4u);
  }
}

TEST(EngineLimitsTest, BothIgnorePoliciesGiveExactlyMaxTokens) {
  auto options = Defaults();
  options.model.eos_permille = 300;
  for (const auto policy : {EosPolicy::kIgnoreContinue, EosPolicy::kIgnoreMask}) {
    EngineHarness harness(options);
    for (int32_t salt = 0; salt < 20; ++salt) {
      SequenceSpec spec = MakeSpec(6, 25, salt);
      spec.stop.eos_policy = policy;
      const SequenceId id = harness.Admit(spec);
      ASSERT_TRUE(harness.RunUntilOver(id));
      const Seen& seen = harness.seen(id);
      EXPECT_EQ(seen.tokens.size(), 25u);
      EXPECT_EQ(seen.finished->reason, FinishReason::kLength);
      const bool has_eos = std::ranges::count(seen.tokens, 2) > 0;
      EXPECT_FALSE(policy == EosPolicy::kIgnoreMask && has_eos);
      // Up to the natural end the tokens are those of an honoured run.
      spec.stop.eos_policy = EosPolicy::kHonor;
      const SequenceId honour = harness.Admit(spec);
      ASSERT_TRUE(harness.RunUntilOver(honour));
      const auto& honoured = harness.seen(honour);
      ASSERT_EQ(seen.finished->natural_end_step, honoured.finished->natural_end_step);
      const auto before = static_cast<ptrdiff_t>(seen.finished->natural_end_step.value_or(26) - 1);
      EXPECT_TRUE(
          std::equal(seen.tokens.begin(), seen.tokens.begin() + before, honoured.tokens.begin()));
    }
  }
}

TEST(EngineLimitsTest, MinTokensHoldsTheEndBack) {
  auto options = Defaults();
  options.model.force = [](const kernels::SampleRow&) { return std::optional<TokenId>(2); };
  EngineHarness harness(options);
  SequenceSpec spec = MakeSpec(6, 20);
  spec.stop.min_tokens = 9;
  EXPECT_EQ(harness.Generate(spec).size(), 10u);  // the tenth is EOS
}

TEST(EngineLimitsTest, StartRefusesOptionsThatMakeNoSense) {
  const FakeArena arena(4);
  const base::SteadyClock clock;
  const auto start = [&](auto change) {
    EngineOptions options = EngineHarness::DefaultEngine();
    kernels::PagedKv kv = arena.kv();
    change(&options, &kv);
    return Engine::Start(options, kv, std::make_unique<FakeRunner>(arena.kv(), FakeModelOptions()),
                         &clock)
        .status()
        .code();
  };
  constexpr auto kBad = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(start([](auto*, auto*) {}), absl::StatusCode::kOk);
  EXPECT_EQ(start([](auto* o, auto*) { o->max_model_len = 0; }), kBad);
  EXPECT_EQ(start([](auto* o, auto*) { o->max_num_seqs = 0; }), kBad);
  EXPECT_EQ(start([](auto* o, auto*) { o->max_prefill_tokens = 0; }), kBad);
  EXPECT_EQ(start([](auto* o, auto*) { o->max_num_batched_tokens = 0; }), kBad);
  EXPECT_EQ(start([](auto* o, auto*) { o->max_num_queued_reqs = 0; }), kBad);
  EXPECT_EQ(start([](auto* o, auto*) { o->vocab_size = 0; }), kBad);
  EXPECT_EQ(start([](auto* o, auto*) { o->prefill_batch_wait = milliseconds(-1); }), kBad);
  EXPECT_EQ(start([](auto* o, auto*) { o->stall_timeout = milliseconds(0); }), kBad);
  EXPECT_EQ(start([](auto*, auto* kv) { kv->num_blocks = 0; }), kBad);
}

}  // namespace
}  // namespace baton
