// Preempted requests that are swapped by a model on several ranks, each of which copies its own
// part of a block.
#include "tests/common/engine/model_identity_fixture.h"

namespace baton {
namespace {

class RanksSwapTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const absl::Status written = WriteRandomModel(
        {.arch = "llama", .hidden = kHidden, .head_dim = 32, .dtype = "bfloat16", .seed = 5},
        folder_ / "model");
    ASSERT_TRUE(written.ok()) << written;
    ModelOptions options;
    options.isa = "avx2";
    options.dtype = kernels::DType::kF32;
    options.kv_dtype = kernels::ParseKvDType(GetParam());
    options.threads = 2;
    options.tensor_parallel_size = 2;
    options.kv.tokens = 4096;
    options.swap_bytes = kSwapBytes;
    options.limits = {.max_tokens = 512, .max_samples = 64};
    auto model = LoadModel(folder_ / "model", options, nullptr);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
  }

  std::vector<Seen> Generate(int32_t num_blocks, int32_t swap_blocks, int32_t max_num_seqs,
                             EngineFigures* figures) {
    EngineOptions options;
    options.max_model_len = 512;
    options.max_num_seqs = max_num_seqs;
    options.max_prefill_tokens = options.max_num_batched_tokens = 512;
    options.vocab_size = model_->config.vocab;
    options.swap_blocks = swap_blocks;
    kernels::PagedKv kv = model_->kv();
    if (num_blocks > 0) kv.num_blocks = num_blocks;
    EngineHarness harness(options, kv, std::make_unique<BorrowedRunner>(model_->runner.get()));
    std::vector<SequenceId> ids;
    for (int32_t i = 0; i < kRequests; ++i) ids.push_back(harness.Admit(Request(i)));
    std::vector<Seen> seen;
    for (const SequenceId id : ids) {
      EXPECT_TRUE(harness.RunUntilOver(id));
      seen.push_back(harness.seen(id));
    }
    *figures = harness.figures();
    EXPECT_TRUE(harness.AllBlocksBack());
    return seen;
  }

  ScratchFolder folder_;
  std::unique_ptr<LoadedModel> model_;
};

TEST_P(RanksSwapTest, EveryRankCopiesItsPart) {
  EXPECT_EQ(model_->swap_blocks(),
            kSwapBytes / static_cast<int64_t>(2 * model_->kv().layout.block_bytes()));
  EXPECT_EQ(model_->peers.at(0).swap_arena->kv().num_blocks, model_->swap_blocks());
  EngineFigures alone_figures, figures;
  const std::vector<Seen> alone = Generate(0, 0, 1, &alone_figures);
  const std::vector<Seen> swapped = Generate(20, model_->swap_blocks(), kRequests, &figures);
  EXPECT_EQ(alone_figures.preemptions, 0u);
  EXPECT_GE(figures.blocks_swapped_in, 1u);
  EXPECT_EQ(figures.swaps, figures.preemptions);
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(swapped[i].tokens, alone[i].tokens) << i;
    for (size_t step = 0; step < alone[i].samples.size(); ++step) {
      EXPECT_EQ(swapped[i].samples[step].logprob, alone[i].samples[step].logprob);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kv, RanksSwapTest, testing::Values("auto", "int8"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace baton
