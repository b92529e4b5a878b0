// What a transformer tells its backend of the steps to come.
#include <gtest/gtest.h>

#include <memory>
#include <tuple>
#include <vector>

#include "common/model/transformer.h"
#include "kernels/backend_factory.h"
#include "tests/common/model/model_harness.h"
#include "tests/fakes/queued_backend.h"
#include "tests/fakes/scratch_folder.h"

namespace baton::test {
namespace {

using Use = std::tuple<int64_t, int64_t, kernels::DType, bool, bool, int>;

class StepUsesTest : public testing::Test {
 protected:
  // A transformer of one of two ranks, and what it prepared.
  struct Rank {
    std::unique_ptr<kernels::Backend> host;
    std::unique_ptr<QueuedBackend> backend;
    std::unique_ptr<Transformer> transformer;

    std::vector<Use> Uses(bool part) const {
      std::vector<Use> uses;
      for (const kernels::MatMulUse& use : backend->products()) {
        if (use.part != part) continue;
        uses.emplace_back(use.weight->out(), use.weight->in(), use.out, use.bias, use.accumulate,
                          use.max_rows);
      }
      return uses;
    }
  };

  Rank Make(int32_t rank, int32_t ranks) {
    Rank made;
    made.host = *kernels::MakeBackend({.device = kernels::Device::kReference});
    made.backend = std::make_unique<QueuedBackend>(made.host.get());
    const LocalShape shape = *LocalShape::Of(config_, rank, ranks);
    auto weights = LoadWeights(config_, shape, *files_, *made.backend, nullptr);
    EXPECT_TRUE(weights.ok()) << weights.status();
    made.transformer = *Transformer::Create(config_, shape, *std::move(weights), made.backend.get(),
                                            {.max_tokens = 8, .max_samples = 4});
    return made;
  }

  const ScratchFolder dir_;
  // An odd vocabulary: ranks have unlike shares of it.
  const absl::Status written_ =
      WriteRandomModel({.arch = "qwen2", .vocab = 301, .dtype = "float32", .seed = 3}, dir_ / "m");
  const ModelConfig config_ = *LoadModelConfig(dir_ / "m");
  const std::unique_ptr<CheckpointFiles> files_ = *CheckpointFiles::Open(dir_ / "m");
};

// They choose the algorithms of these together, in this order.
TEST_F(StepUsesTest, RanksHaveAlikeAllThatIsNoPart) {
  const Rank first = Make(0, 2);
  const Rank second = Make(1, 2);
  EXPECT_EQ(first.Uses(false), second.Uses(false));
  EXPECT_EQ(first.Uses(false).size(), 4U) << "qkv, gate and up of two layers";
  EXPECT_NE(first.Uses(true), second.Uses(true)) << "rank 0 accumulates, columns are shared out";
}

TEST_F(StepUsesTest, NothingIsAPartOnOneRank) {
  const Rank alone = Make(0, 1);
  EXPECT_TRUE(alone.Uses(true).empty());
  EXPECT_EQ(alone.Uses(false).size(), 9U);
}

}  // namespace
}  // namespace baton::test
