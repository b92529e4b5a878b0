// A device that keeps what each slot drew: steps are launched before the token that they feed has
// reached the host. Its tokens are compared with one step at a time on a host that knows every
// token.
#include "common/model/transformer_runner.h"
#include "tests/common/engine/model_identity_fixture.h"
#include "tests/fakes/queued_backend.h"

namespace baton {
namespace {

class ModelDeviceFeedTest : public ModelIdentityTest {
 protected:
  void SetUp() override {
    ModelIdentityTest::SetUp();
    auto files = CheckpointFiles::Open(*dir_ / "model");
    ASSERT_TRUE(files.ok()) << files.status();
    device_ = std::make_unique<test::QueuedBackend>(model_->backend.get());
    const LocalShape shape = LocalShape::Of(model_->config, 0, 1).value();
    auto weights = LoadWeights(model_->config, shape, **files, *device_, nullptr);
    ASSERT_TRUE(weights.ok()) << weights.status();
    auto probe = PackProbe(ProbeOf(GetParam().dtype, kHidden), *device_);
    ASSERT_TRUE(probe.ok()) << probe.status();
    weights->probe = std::move(probe).value();
    auto transformer =
        Transformer::Create(model_->config, shape, std::move(weights).value(), device_.get(),
                            {.max_tokens = 512, .max_samples = 2 * kRequests});
    ASSERT_TRUE(transformer.ok()) << transformer.status();
    runner_ = std::make_unique<TransformerRunner>(std::move(transformer).value(), model_->kv(),
                                                  model_->swap_arena->kv());
    ASSERT_EQ(runner_->max_in_flight(), 2);
  }

  std::unique_ptr<EngineHarness> StartOnDevice(EngineOptions options, int32_t num_blocks = 0) {
    options.overlap = true;
    kernels::PagedKv kv = model_->kv();
    if (num_blocks > 0) kv.num_blocks = num_blocks;
    return std::make_unique<EngineHarness>(options, kv,
                                           std::make_unique<BorrowedRunner>(runner_.get()));
  }
  void ExpectFed(EngineHarness* harness) const {
    harness->engine().Stop();
    const EngineFigures figures = harness->figures();
    EXPECT_GT(figures.steps_overlapped, 10u);
    // A discarded row was fed, too.
    EXPECT_EQ(static_cast<uint64_t>(device_->fed()), figures.rows_ahead);
    EXPECT_GT(device_->pending(), 100);
  }

  std::unique_ptr<test::QueuedBackend> device_;
  std::unique_ptr<TransformerRunner> runner_;
};

TEST_P(ModelDeviceFeedTest, InABatch) {
  auto harness = StartOnDevice(Options());
  ExpectAllSame(harness.get());
  ExpectFed(harness.get());
}

TEST_P(ModelDeviceFeedTest, Chunked) {
  EngineOptions options = Options();
  options.max_prefill_tokens = 7;
  options.max_num_batched_tokens = 20;
  auto harness = StartOnDevice(options);
  ExpectAllSame(harness.get());
  ExpectFed(harness.get());
}

TEST_P(ModelDeviceFeedTest, Preempted) {
  auto harness = StartOnDevice(Options(), /*num_blocks=*/20);
  ExpectAllSame(harness.get());
  EXPECT_GE(harness->figures().preemptions, 1u);
  ExpectFed(harness.get());
}

// Copies and steps are in one queue: what is out is still being computed when others' blocks move.
TEST_P(ModelDeviceFeedTest, Swapped) {
  auto harness = StartOnDevice(Swapping(), /*num_blocks=*/20);
  ExpectAllSame(harness.get());
  EXPECT_GE(harness->figures().blocks_swapped_in, 1u);
  EXPECT_EQ(harness->figures().swaps, harness->figures().preemptions);
  ExpectFed(harness.get());
}

TEST_P(ModelDeviceFeedTest, WithRowsThatVerify) {
  EngineOptions options = Options();
  options.max_num_seqs = 6;
  options.proposals = {.most = 5, .batch = 32};
  auto harness = StartOnDevice(options);
  ExpectAllSame(harness.get());
  EXPECT_GT(harness->figures().ids_accepted, 10u);
  ExpectFed(harness.get());
}

INSTANTIATE_TEST_SUITE_P(Cpu, ModelDeviceFeedTest,
                         testing::Values(Case{{"cpu", "auto"}, "float32"},
                                         Case{{"cpu", "auto"}, "bfloat16"}),
                         [](const auto& test) { return test.param.dtype; });

}  // namespace
}  // namespace baton
