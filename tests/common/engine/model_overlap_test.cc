// Real models with one step in flight while the next is planned, against one step at a time.
#include "tests/common/engine/model_identity_fixture.h"

namespace baton {
namespace {

class ModelOverlapTest : public ModelIdentityTest {
 protected:
  EngineOptions Overlapped() const {
    EngineOptions options = Options();
    options.overlap = true;
    return options;
  }
  static void ExpectOverlapped(const EngineFigures& figures) {
    EXPECT_GT(figures.steps_overlapped, 10u);
    EXPECT_GT(figures.rows_ahead, 100u);
  }
};

TEST_P(ModelOverlapTest, InABatchOf32) {
  std::latch admitted(1);
  auto harness = Start(Overlapped(), 0, nullptr, &admitted);
  ExpectAllSame(harness.get(), &admitted);
  EXPECT_GE(harness->figures().largest_batch, kRequests / 2);  // n-grams sit out
  ExpectOverlapped(harness->figures());
}

TEST_P(ModelOverlapTest, Chunked) {
  EngineOptions options = Overlapped();
  options.max_prefill_tokens = 7;
  options.max_num_batched_tokens = 20;
  auto harness = Start(options);
  ExpectAllSame(harness.get());
  EXPECT_GE(harness->figures().prefill_chunks, 2u);
  ExpectOverlapped(harness->figures());
}

TEST_P(ModelOverlapTest, Preempted) {
  for (const bool caching : {false, true}) {
    EngineOptions options = Overlapped();
    options.enable_prefix_caching = caching;
    auto harness = Start(options, /*num_blocks=*/20);
    ExpectAllSame(harness.get());
    EXPECT_GE(harness->figures().preemptions, 1u);
    ExpectOverlapped(harness->figures());
  }
}

TEST_P(ModelOverlapTest, Swapped) {
  for (const bool caching : {false, true}) {
    EngineOptions options = Swapping();
    options.overlap = true;
    options.enable_prefix_caching = caching;
    auto harness = Start(options, /*num_blocks=*/20);
    ExpectAllSame(harness.get());
    EXPECT_GE(harness->figures().blocks_swapped_in, 1u);
    EXPECT_TRUE(harness->AllBlocksBack());
    ExpectOverlapped(harness->figures());
  }
}

// Requests that end early, at ids that a random model draws, after min_tokens.
SequenceSpec Stopping(int32_t index) {
  SequenceSpec spec = Request(index);
  spec.stop.eos_policy = EosPolicy::kHonor;
  spec.stop.min_tokens = index % 7;
  for (int32_t id = index % 5; id < 256; id += 5) spec.stop.stop_token_ids.push_back(id);
  return spec;
}

TEST_P(ModelOverlapTest, EndsThatATokenDecides) {
  auto plain = Start(Options());
  auto overlapped = Start(Overlapped(), 0, nullptr, nullptr);
  int32_t early = 0;
  std::vector<SequenceId> ids;
  for (int32_t i = 0; i < kRequests; ++i) {
    const SequenceId id = plain->Admit(Stopping(i));
    ASSERT_TRUE(plain->RunUntilOver(id));
    early += plain->seen(id).finished->reason == FinishReason::kStopToken ? 1 : 0;
    ids.push_back(id);
  }
  plain->engine().Stop();  // both engines compute in the same model
  EXPECT_GT(early, kRequests / 2);
  for (int32_t i = 0; i < kRequests; ++i) {
    ASSERT_EQ(overlapped->Admit(Stopping(i)), ids[static_cast<size_t>(i)]);
  }
  for (const SequenceId id : ids) {
    ASSERT_TRUE(overlapped->RunUntilOver(id));
    ExpectSame(overlapped->seen(id), plain->seen(id));
    EXPECT_EQ(overlapped->seen(id).finished->reason, plain->seen(id).finished->reason);
    EXPECT_EQ(overlapped->seen(id).finished->stop_token, plain->seen(id).finished->stop_token);
  }
  EXPECT_GT(overlapped->figures().rows_discarded, 5u);
  EXPECT_TRUE(overlapped->AllBlocksBack());
}

TEST_P(ModelOverlapTest, ARequestWithNgramsIsNeverPlannedAhead) {
  auto harness = Start(Overlapped());
  constexpr int32_t kWithNgrams = 3;
  ASSERT_GT(Request(kWithNgrams).sampling.no_repeat_ngram_size, 0);
  const SequenceId id = harness->Admit(Request(kWithNgrams));
  ASSERT_TRUE(harness->RunUntilOver(id));
  ExpectSame(harness->seen(id), alone_[kWithNgrams]);
  EXPECT_EQ(harness->figures().rows_ahead, 0u);
}

INSTANTIATE_TEST_SUITE_P(Cpu, ModelOverlapTest, testing::ValuesIn(AllCases()),
                         [](const auto& test) {
                           return test::DeviceName(test.param.device) + "_" + test.param.dtype;
                         });

}  // namespace
}  // namespace baton
