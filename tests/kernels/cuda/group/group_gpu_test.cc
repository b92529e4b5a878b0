// Sums over the GPUs of one process: over one where there is no second.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "kernels/backend_factory.h"
#include "kernels/cuda/device/runtime.h"
#include "kernels/cuda/graph/graph.h"
#include "tests/kernels/cuda/device_fixture.h"

namespace baton::kernels {
namespace {

constexpr int64_t kCount = 5000;

// Three sums of a rank, the last two as a graph.
void SumOnRank(Collective& collective) {
  const int rank = collective.rank();
  ASSERT_TRUE(cuda::SelectDevice(rank).ok());
  const auto stream = cuda::Stream::Create();
  ASSERT_TRUE(stream.ok()) << stream.status();
  const std::vector<float> ones(kCount, 1);
  const auto values = cuda::DeviceMemory::Allocate(kCount * sizeof(float));
  ASSERT_TRUE(values.ok()) << values.status();
  ASSERT_TRUE(
      cuda::CopyToDevice((*values)->data(), ones.data(), (*values)->size(), stream->handle()).ok());
  cuda::GraphCache graphs(stream->handle());
  for (int sum = 0; sum < 3; ++sum) {
    const absl::Status queued = graphs.Run(
        {},
        [&] {
          return collective.AllReduceSum({static_cast<float*>((*values)->data()), kCount},
                                         stream->handle());
        },
        [](bool captured) { return captured; });
    ASSERT_TRUE(queued.ok()) << queued;
  }
  EXPECT_EQ(graphs.captured(), 1u);
  std::vector<float> found(kCount);
  ASSERT_TRUE(
      cuda::CopyToHost(found.data(), (*values)->data(), (*values)->size(), stream->handle()).ok());
  ASSERT_TRUE(stream->Synchronize().ok());
  EXPECT_TRUE(collective.status().ok()) << collective.status();
  const auto ranks = static_cast<float>(collective.size());
  EXPECT_EQ(found, std::vector<float>(kCount, ranks * ranks * ranks));
}

TEST(GpuGroupTest, SumsAreThoseOfAllRanksAlsoInAGraph) {
  const auto count = cuda::DeviceCount();
  ASSERT_TRUE(count.ok()) << count.status();
  const int ranks = std::min(2, *count);
  const auto group = MakeGroup({.device = Device::kCuda, .ranks = ranks});
  ASSERT_TRUE(group.ok()) << group.status();
  std::vector<std::thread> threads;
  for (const auto& end : *group) threads.emplace_back([&end] { SumOnRank(*end); });
  for (std::thread& thread : threads) thread.join();
}

// A rank of two whose group never comes; `sums` counts what it was asked to add up. What is asked
// with `votes` is whether the other rank captured a step, which could not do so.
class LonelyRank final : public Collective {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  absl::Status AllReduceSum(std::span<float>, void*) override {
    ++sums;
    return absl::OkStatus();
  }
  absl::Status AllGather(std::span<float>, void*) override { return Asked(); }
  absl::Status AllReduceSumOnHost(std::span<float> values) override {
    if (!votes) return Asked();
    for (float& value : values) value += 1;
    return absl::OkStatus();
  }
  absl::Status status() override { return absl::OkStatus(); }
  void Abort(const absl::Status& why) override { ADD_FAILURE() << why; }

  int sums = 0;
  bool votes = false;

 private:
  static absl::Status Asked() {
    ADD_FAILURE() << "the group was asked";
    return absl::DeadlineExceededError("nobody else came");
  }
};

// The worker measures the GPU of rank 0 when all ranks are loaded.
TEST(GpuGroupTest, ARankMeasuresWithoutTheOthers) {
  LonelyRank rank;
  const auto backend =
      MakeBackend({.device = Device::kCuda, .compute_dtype = DType::kBF16, .collective = &rank});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto limits = MeasureLimits(**backend, 1, /*integers=*/false);
  ASSERT_TRUE(limits.ok()) << limits.status();
  EXPECT_GT(limits->flops_per_s, 0);
  EXPECT_GT(limits->read_bytes_per_s, 0);
  EXPECT_EQ(rank.sums, 0);
}

// Runs three steps with a sum: one to load what is needed, one to be captured, one that would
// repeat it. `also` is part of each. Returns how many sums the rank was asked for after each step.
std::vector<int> SumsOfSteps(LonelyRank& rank, absl::FunctionRef<void()> also) {
  const auto backend =
      MakeBackend({.device = Device::kCuda, .compute_dtype = DType::kF32, .collective = &rank});
  EXPECT_TRUE(backend.ok()) << backend.status();
  EXPECT_TRUE((*backend)->Prepare({.max_tokens = 1, .max_samples = 1}).ok());
  rank.votes = true;
  const DeviceMatrix in(**backend, DType::kF32, 1, 16, ExactValues(16, 1));
  const DeviceMatrix out(**backend, DType::kF32, 1, 8);
  const std::vector<int32_t> zero = {0};
  const StepLayout::Sequence sequence{0, 1, 1, zero};
  const PagedKv kv{.layout = {.layers = 1, .kv_heads = 1, .head_dim = 8}, .num_blocks = 1};
  std::vector<int> sums;
  for (int step = 1; step <= 3; ++step) {
    const auto begun = (*backend)->BeginStep(
        {.tokens = zero, .positions = zero, .sequences = {&sequence, 1}, .sample_rows = zero}, kv);
    EXPECT_TRUE(begun.ok()) << begun.status();
    const absl::Status ran = (*backend)->RunStep(1, [&] {
      also();
      (*backend)->SiluMul(in.view(), out.view());
      (*backend)->AllReduce(out.view());
    });
    EXPECT_TRUE(ran.ok()) << ran;
    EXPECT_TRUE((*backend)->EndStep().ok());
    sums.push_back(rank.sums);
  }
  return sums;
}

TEST(GpuGroupTest, ACaptureThatFailedAsksTheGroupForNoSum) {
  LonelyRank rank;
  const std::vector<int> sums = SumsOfSteps(rank, [] {
    cuda::DeviceMemory::Allocate(1).status().IgnoreError();  // nothing may do so in a capture
  });
  EXPECT_EQ(sums, (std::vector<int>{1, 2, 3}));
}

// The other rank could not capture the second step, so this one runs it as it is, too, and the
// third.
TEST(GpuGroupTest, AStepThatAnotherRankCouldNotCaptureRunsAsItIs) {
  LonelyRank rank;
  EXPECT_EQ(SumsOfSteps(rank, [] {}), (std::vector<int>{1, 3, 4}));
}

}  // namespace
}  // namespace baton::kernels
