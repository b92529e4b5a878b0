// The same tokens however a request ran, with real models: every path of the engine against the
// request alone, per dtype and ISA path. Each test asserts by a counter that its path was taken.
#include "tests/common/engine/model_identity_fixture.h"

namespace baton {
namespace {

TEST_P(ModelIdentityTest, InABatchOf32) {
  std::latch admitted(1);
  auto harness = Start(Options(), 0, nullptr, &admitted);
  ExpectAllSame(harness.get(), &admitted);
  EXPECT_EQ(harness->figures().largest_batch, kRequests);
}

TEST_P(ModelIdentityTest, Chunked) {
  EngineOptions options = Options();
  options.max_prefill_tokens = 7;
  options.max_num_batched_tokens = 20;
  auto harness = Start(options);
  ExpectAllSame(harness.get());
  EXPECT_GE(harness->figures().prefill_chunks, 2u);
}

TEST_P(ModelIdentityTest, Preempted) {
  for (const bool caching : {false, true}) {
    EngineOptions options = Options();
    options.enable_prefix_caching = caching;
    auto harness = Start(options, /*num_blocks=*/20);
    ExpectAllSame(harness.get());
    EXPECT_GE(harness->figures().preemptions, 1u);
  }
}

TEST_P(ModelIdentityTest, Swapped) {
  for (const bool caching : {false, true}) {
    EngineOptions options = Swapping();
    options.enable_prefix_caching = caching;
    auto harness = Start(options, /*num_blocks=*/20);
    ExpectAllSame(harness.get());
    const EngineFigures figures = harness->figures();
    EXPECT_GE(figures.swaps, 1u);
    EXPECT_GE(figures.blocks_swapped_in, 1u);
    EXPECT_TRUE(harness->AllBlocksBack());
  }
}

TEST_P(ModelIdentityTest, PrefixCached) {
  EngineOptions options = Options();
  options.enable_prefix_caching = true;
  auto harness = Start(options);
  ExpectAllSame(harness.get());
  const uint64_t hits = harness->figures().prefix_hits;
  ExpectAllSame(harness.get());
  EXPECT_GT(harness->figures().prefix_hits, hits + 500);
}

TEST_P(ModelIdentityTest, Resumed) {
  auto harness = Start(Options());
  for (int32_t i = 0; i < kRequests; ++i) {
    const Seen& alone = alone_[static_cast<size_t>(i)];
    SequenceSpec spec = Request(i);
    const auto accepted = static_cast<size_t>(1 + i % (kMaxTokens - 1));
    spec.generated.assign(alone.tokens.begin(),
                          alone.tokens.begin() + static_cast<ptrdiff_t>(accepted));
    for (size_t step = accepted; step-- > 0;) {
      if (alone.samples[step].natural_end) spec.natural_end_step = static_cast<int32_t>(step) + 1;
    }
    const SequenceId id = harness->Admit(spec);
    ASSERT_TRUE(harness->RunUntilOver(id));
    ExpectSame(harness->seen(id), alone, accepted);
  }
}

// An answer read as a part of the prompt has the logprobs that it was drawn with.
TEST_P(ModelIdentityTest, ScoresOfAPromptAreThoseOfDraws) {
  EngineOptions options = Options();
  options.max_num_seqs = 7;
  auto harness = Start(options);
  std::vector<SequenceId> ids;
  for (int32_t i = 0; i < kRequests; ++i) {
    const Seen& alone = alone_[static_cast<size_t>(i)];
    SequenceSpec spec = Request(i);
    spec.score_from = static_cast<int32_t>(spec.prompt.size());
    spec.prompt.insert(spec.prompt.end(), alone.tokens.begin(), alone.tokens.end());
    ids.push_back(harness->Admit(spec));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    ASSERT_TRUE(harness->RunUntilOver(ids[i]));
    const std::vector<TokenScore>& scores = harness->seen(ids[i]).scores;
    const std::vector<SampledToken>& drawn = alone_[i].samples;
    ASSERT_EQ(scores.size(), drawn.size());
    for (size_t j = 0; j < scores.size(); ++j) {
      EXPECT_EQ(scores[j].logprob, drawn[j].logprob);
      ASSERT_EQ(scores[j].top_logprobs.size(), drawn[j].top_logprobs.size());
      for (size_t rank = 0; rank < scores[j].top_logprobs.size(); ++rank) {
        EXPECT_EQ(scores[j].top_logprobs[rank].token, drawn[j].top_logprobs[rank].token);
        EXPECT_EQ(scores[j].top_logprobs[rank].logprob, drawn[j].top_logprobs[rank].logprob);
      }
    }
  }
}

TEST_P(ModelIdentityTest, SplitOverTwoEngines) {
  auto second = Load();
  EngineOptions chunked = Options();
  chunked.max_prefill_tokens = 24;
  auto prefill = Start(chunked, 0, second.get());
  auto decode = Start(Options());
  std::vector<SequenceId> ids;
  for (int32_t i = 0; i < kRequests; ++i) {
    SequenceSpec spec = Request(i);
    spec.kind = SequenceKind::kReserved;
    const SequenceId d = decode->Admit(spec);
    ASSERT_TRUE(decode->RunUntil([&] { return decode->seen(d).reserved.has_value(); }));
    spec.kind = SequenceKind::kPrefill;
    const SequenceId p = prefill->Admit(spec);
    ASSERT_TRUE(prefill->RunUntilOver(p));
    CopyBlocks(prefill->seen(p), decode->seen(d));
    decode->engine().CommitImport(d, prefill->seen(p).samples.at(0));
    prefill->engine().ReturnLease(p);
    ExpectSame(prefill->seen(p), [&] {
      Seen first = alone_[static_cast<size_t>(i)];
      first.samples.resize(1);
      first.finished->natural_end_step = prefill->seen(p).finished->natural_end_step;
      return first;
    }());
    ids.push_back(d);
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    ASSERT_TRUE(decode->RunUntilOver(ids[i]));
    ExpectSame(decode->seen(ids[i]), alone_[i], 1);
  }
  EXPECT_GT(decode->figures().prompt_tokens_received, 0u);
  EXPECT_TRUE(prefill->AllBlocksBack());
  EXPECT_TRUE(decode->AllBlocksBack());
}

INSTANTIATE_TEST_SUITE_P(Cpu, ModelIdentityTest, testing::ValuesIn(AllCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Int8Kv, ModelIdentityTest, testing::ValuesIn(QuantizedKvCases("int8")),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Fp8Kv, ModelIdentityTest, testing::ValuesIn(QuantizedKvCases("fp8")),
                         CaseName);

}  // namespace
}  // namespace baton
