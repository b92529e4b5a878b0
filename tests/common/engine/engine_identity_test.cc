// The same tokens however a request ran. Each test asserts by a counter that its path was taken.
#include <gtest/gtest.h>

#include "common/sample/stop.h"
#include "tests/common/engine/harness.h"

namespace baton {
namespace {

constexpr int32_t kPromptLength = 37;
constexpr int32_t kMaxTokens = 30;

std::vector<TokenId> Alone(int32_t salt = 0) {
  EngineHarness harness(Defaults());
  return harness.Generate(MakeSpec(kPromptLength, kMaxTokens, salt));
}

TEST(EngineIdentityTest, DifferentSeedsDiffer) {
  EngineHarness harness(Defaults());
  SequenceSpec other = MakeSpec(kPromptLength, kMaxTokens);
  other.sampling.seed = 99;
  EXPECT_NE(harness.Generate(other), Alone());
}

TEST(EngineIdentityTest, GivesTheTokensThatTheHistoryDetermines) {
  const FakeArena arena(1);
  FakeModelOptions model;
  const SequenceSpec spec = MakeSpec(kPromptLength, kMaxTokens);
  std::vector<TokenId> history = spec.prompt, expected;
  const std::vector<TokenId> eos = {2};
  StopCriteria stop(spec.stop, eos, kMaxTokens, std::nullopt);
  while (expected.size() < static_cast<size_t>(kMaxTokens)) {
    const auto row = MakeSampleRow(spec.sampling, stop, history, kPromptLength);
    const auto token = FakeDraw(model, FakeHistoryHash(arena.kv().layout, history), row).token;
    history.push_back(token);
    expected.push_back(token);
  }
  EXPECT_EQ(Alone(), expected);
}

TEST(EngineIdentityTest, BatchOf8) {
  auto options = Defaults();
  options.num_blocks = 200;
  EngineHarness harness(options);
  harness.control().Pause();
  std::vector<SequenceId> ids;
  for (int32_t i = 0; i < 9; ++i)
    ids.push_back(harness.Admit(MakeSpec(kPromptLength, kMaxTokens, i)));
  harness.control().Resume();
  for (int32_t i = 0; i < 9; ++i) {
    ASSERT_TRUE(harness.RunUntilOver(ids[static_cast<size_t>(i)]));
    EXPECT_EQ(harness.seen(ids[static_cast<size_t>(i)]).tokens, Alone(i)) << i;
  }
  EXPECT_EQ(harness.figures().largest_batch, 8);
}

TEST(EngineIdentityTest, Chunked) {
  auto options = Defaults();
  options.engine.max_prefill_tokens = 5;
  EngineHarness harness(options);
  EXPECT_EQ(harness.Generate(MakeSpec(kPromptLength, kMaxTokens)), Alone());
  EXPECT_EQ(harness.figures().prefill_chunks, 8u);
}

TEST(EngineIdentityTest, OneTokenPerStep) {
  auto options = Defaults();
  options.engine.max_num_batched_tokens = 1;
  EngineHarness harness(options);
  const SequenceId a = harness.Admit(MakeSpec(kPromptLength, kMaxTokens, 0));
  const SequenceId b = harness.Admit(MakeSpec(kPromptLength, kMaxTokens, 1));
  ASSERT_TRUE(harness.RunUntilOver(a) && harness.RunUntilOver(b));
  EXPECT_EQ(harness.seen(a).tokens, Alone(0));
  EXPECT_EQ(harness.seen(b).tokens, Alone(1));
  EXPECT_EQ(harness.figures().largest_batch, 1);
}

// Three requests begin together, and each gets what it gets alone.
void ThreeTogetherEqualEachAlone(EngineHarness& harness) {
  harness.control().Pause();
  std::vector<SequenceId> ids;
  for (int32_t i = 0; i < 3; ++i) ids.push_back(harness.Admit(MakeSpec(20, 30, i)));
  harness.control().Resume();
  for (int32_t i = 0; i < 3; ++i) {
    const SequenceId id = ids[static_cast<size_t>(i)];
    ASSERT_TRUE(harness.RunUntilOver(id));
    EngineHarness alone(Defaults());
    EXPECT_EQ(harness.seen(id).tokens, alone.Generate(MakeSpec(20, 30, i))) << i;
  }
}

TEST(EngineIdentityTest, PreemptedWithAndWithoutPrefixCache) {
  for (const bool caching : {false, true}) {
    auto options = Defaults();
    options.num_blocks = 24;  // two of the three fit to their ends
    options.engine.enable_prefix_caching = caching;
    EngineHarness harness(options);
    ThreeTogetherEqualEachAlone(harness);
    EXPECT_GE(harness.figures().preemptions, 1u);
    EXPECT_TRUE(harness.AllBlocksBack());
  }
}

TEST(EngineIdentityTest, SwappedWithAndWithoutPrefixCache) {
  for (const bool overlap : {false, true}) {
    for (const bool caching : {false, true}) {
      auto options = Defaults();
      options.num_blocks = 24;
      options.engine.enable_prefix_caching = caching;
      options.engine.overlap = overlap;
      options.engine.swap_blocks = 24;
      EngineHarness harness(options);
      ThreeTogetherEqualEachAlone(harness);
      const EngineFigures figures = harness.figures();
      EXPECT_GE(figures.swaps, 1u);
      EXPECT_GT(figures.blocks_swapped_in, 0u);
      EXPECT_EQ(figures.swap_blocks_total, 24);
      EXPECT_TRUE(harness.AllBlocksBack());
    }
  }
}

TEST(EngineIdentityTest, PrefixCached) {
  EngineHarness harness(Defaults());
  const auto first = harness.Generate(MakeSpec(kPromptLength, kMaxTokens));
  const SequenceId again = harness.Admit(MakeSpec(kPromptLength, kMaxTokens));
  ASSERT_TRUE(harness.RunUntilOver(again));
  EXPECT_EQ(harness.seen(again).tokens, first);
  EXPECT_EQ(harness.seen(again).finished->cached_tokens, 36);
}

TEST(EngineIdentityTest, Resumed) {
  const auto whole = Alone();
  EngineHarness harness(Defaults());
  SequenceSpec rest = MakeSpec(kPromptLength, kMaxTokens);
  rest.generated.assign(whole.begin(), whole.begin() + 11);
  const SequenceId id = harness.Admit(rest);
  ASSERT_TRUE(harness.RunUntilOver(id));
  EXPECT_EQ(harness.seen(id).tokens, std::vector<TokenId>(whole.begin() + 11, whole.end()));
  EXPECT_EQ(harness.seen(id).last_index, kMaxTokens - 1);
}

// Runs a request split over two engines; `accepted` tokens were generated by an earlier attempt.
std::vector<TokenId> Split(int32_t accepted, bool warm_decoder, int64_t* received) {
  const auto whole = Alone();
  EngineHarness prefill(Defaults()), decode(Defaults());
  if (warm_decoder) {
    decode.Generate(MakeSpec(kPromptLength, 1));
  }
  SequenceSpec spec = MakeSpec(kPromptLength, kMaxTokens, 0, SequenceKind::kReserved);
  spec.generated.assign(whole.begin(), whole.begin() + accepted);
  const SequenceId d = decode.Admit(spec);
  EXPECT_TRUE(decode.RunUntil([&] { return decode.seen(d).reserved.has_value(); }));
  spec.kind = SequenceKind::kPrefill;
  const SequenceId p = prefill.Admit(spec);
  EXPECT_TRUE(prefill.RunUntilOver(p));
  EXPECT_EQ(prefill.seen(p).finished->reason, FinishReason::kNone);
  EXPECT_TRUE(prefill.seen(p).last_ready);
  CopyBlocks(prefill.seen(p), decode.seen(d));
  decode.engine().CommitImport(d, prefill.seen(p).samples.at(0));
  prefill.engine().ReturnLease(p);
  EXPECT_TRUE(decode.RunUntilOver(d));
  EXPECT_TRUE(prefill.AllBlocksBack());
  EXPECT_TRUE(decode.AllBlocksBack());
  std::vector<TokenId> tokens = spec.generated;
  tokens.push_back(prefill.seen(p).tokens.at(0));
  const auto& rest = decode.seen(d).tokens;
  tokens.insert(tokens.end(), rest.begin(), rest.end());
  *received = static_cast<int64_t>(decode.figures().prompt_tokens_received);
  return tokens;
}

TEST(EngineIdentityTest, SplitOverTwoEngines) {
  int64_t received = 0;
  EXPECT_EQ(Split(0, false, &received), Alone());
  EXPECT_EQ(received, 37);
}

TEST(EngineIdentityTest, SplitWithAPrefixThatTheDecoderHolds) {
  int64_t received = 0;
  EXPECT_EQ(Split(0, true, &received), Alone());
  EXPECT_EQ(received, 1);
}

TEST(EngineIdentityTest, SplitAndResumed) {
  int64_t received = 0;
  EXPECT_EQ(Split(7, false, &received), Alone());
  EXPECT_EQ(received, 44);
}

}  // namespace
}  // namespace baton
