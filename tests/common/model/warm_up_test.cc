// Which steps run before a worker serves.
#include "common/model/warm_up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "common/model/kv_arena.h"
#include "kernels/attention_split.h"
#include "kernels/backend_factory.h"
#include "kernels/cuda/graph/row_buckets.h"
#include "tests/common/model/model_harness.h"
#include "tests/fakes/queued_backend.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using kernels::cuda::CaptureRows;
using kernels::cuda::GridBucket;
using testing::ElementsAre;

int32_t PartsOf(int64_t context) {
  return static_cast<int32_t>((context + kernels::kAttentionSplitTokens - 1) /
                              kernels::kAttentionSplitTokens);
}

TEST(WarmUpContextsTest, DoubleTheirPartsUpToTheLongest) {
  EXPECT_THAT(WarmUpContexts(1), ElementsAre(1));
  EXPECT_THAT(WarmUpContexts(256), ElementsAre(1));
  EXPECT_THAT(WarmUpContexts(257), ElementsAre(1, 512));
  EXPECT_THAT(WarmUpContexts(512), ElementsAre(1, 512));
  EXPECT_THAT(WarmUpContexts(3000), ElementsAre(1, 512, 1024, 2048, 4096));
}

// A graph of a GPU is captured for its rows and its number of parts, both rounded up.
TEST(WarmUpContextsTest, EveryGraphThatAStepCanAskForIsCaptured) {
  constexpr int64_t kPoolTokens = 100'000;
  constexpr int64_t kLongest = 8192;
  const auto longest = [](int64_t count) {
    return std::min<int64_t>(kPoolTokens / count, +kLongest);
  };
  for (const int64_t most : {1, 7, 20, 64, 200}) {
    SCOPED_TRACE(most);
    std::set<std::pair<int64_t, int32_t>> captured;
    for (int64_t count = 1; count <= most; count = CaptureRows(count, most) + 1) {
      for (const int32_t context : WarmUpContexts(static_cast<int32_t>(longest(count)))) {
        captured.emplace(CaptureRows(count, most),
                         GridBucket(static_cast<int32_t>(count) * PartsOf(context)));
      }
    }
    for (int64_t count = 1; count <= most; ++count) {
      const auto rows = static_cast<int32_t>(count);
      for (int32_t parts = rows; parts <= rows * PartsOf(longest(count)); ++parts) {
        const std::pair wanted(CaptureRows(count, most), GridBucket(parts));
        ASSERT_TRUE(captured.contains(wanted)) << count << " sequences of " << parts << " parts";
      }
    }
    EXPECT_LE(captured.size(), 256U) << "more graphs than are kept";
  }
}

// Decode steps of a random model on a backend that captures those of up to four rows.
class RunDecodeStepsTest : public testing::Test {
 protected:
  // How many operations run before a worker serves, when steps have up to `max_samples` rows, and
  // of so many sequences if that is not 0.
  uint64_t Operations(int32_t max_samples, int32_t max_context, int32_t max_sequences = 0) {
    test::QueuedBackend backend(host_.get(), 4);
    auto weights = LoadWeights(config_, shape_, *files_, backend, nullptr);
    EXPECT_TRUE(weights.ok()) << weights.status();
    const auto transformer = Transformer::Create(
        config_, shape_, *std::move(weights), &backend,
        {.max_tokens = max_samples, .max_samples = max_samples, .max_sequences = max_sequences});
    EXPECT_TRUE(transformer.ok()) << transformer.status();
    const auto arena =
        KvArena::Create(backend, KvLayoutOf(config_, shape_, kernels::DType::kF32, 16), 64);
    const absl::Status ran = RunDecodeSteps(**transformer, arena->kv(), max_context);
    EXPECT_TRUE(ran.ok()) << ran;
    return (*transformer)->operations_finished();
  }

  const ScratchFolder dir_;
  const absl::Status written_ = WriteRandomModel({.dtype = "float32", .seed = 3}, dir_ / "m");
  const ModelConfig config_ = *LoadModelConfig(dir_ / "m");
  const std::unique_ptr<CheckpointFiles> files_ = *CheckpointFiles::Open(dir_ / "m");
  const std::unique_ptr<kernels::Backend> host_ =
      *kernels::MakeBackend({.device = kernels::Device::kReference});
  const LocalShape shape_ = *LocalShape::Of(config_, 0, 1);
};

TEST_F(RunDecodeStepsTest, RunsEachOfThemTwice) {
  const uint64_t of_eight = Operations(4, 1);  // one to four rows, twice
  ASSERT_GT(of_eight, 0U);
  // 64 blocks give {1, 512, 1024} tokens to one, {1, 512} to two and to three, 1 to four.
  EXPECT_EQ(Operations(4, 1 << 20) * 8, of_eight * 16);
}

TEST_F(RunDecodeStepsTest, RunsNoneThatIsNeverCaptured) {
  EXPECT_EQ(Operations(9, 1), Operations(4, 1));
}

// The other rows are draws behind proposals and forced tokens, in steps that are no decode steps.
TEST_F(RunDecodeStepsTest, RunsNoneOfMoreRowsThanSequences) {
  EXPECT_EQ(Operations(4, 1, 2) * 2, Operations(4, 1));
  EXPECT_EQ(Operations(3, 1, 9), Operations(3, 1));
}

TEST(LongestContextTest, IsThatOfTheFlagUnlessTheModelKnowsFewer) {
  const ModelConfig config = {.max_positions = 4096};
  EXPECT_EQ(LongestContext(0, config), 4096);
  EXPECT_EQ(LongestContext(1000, config), 1000);
  EXPECT_EQ(LongestContext(9000, config), 4096);
}

}  // namespace
}  // namespace baton
