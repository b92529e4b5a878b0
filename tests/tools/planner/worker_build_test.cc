#include "tools/planner/worker_build.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/tools/planner/planner_model.h"

namespace baton::planner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Reaches 5e8 bytes and 5e8 operations per second.
Hardware Box() {
  Hardware box;
  box.name = "box";
  box.device = "cuda";
  box.devices = 4;
  box.memory_bytes = 4e9;
  box.memory_share = 0.5;
  box.memory_bandwidth = 1e9;
  box.bandwidth_share = 0.5;
  box.flops = {{"bfloat16", 1e9}};
  box.flops_share = 0.5;
  box.step_us = 100;
  box.link = Hardware::Link{.bytes_per_s = 1e9, .latency_us = 7};
  return box;
}

TEST(WorkerBuildTest, StepsFollowFromTheShape) {
  const auto build = ReckonWorker(SmallModel(), Box(), 1);
  ASSERT_TRUE(build.ok()) << build.status();
  // 106 816 elements of two bytes; the embedding's 16 384 are not read as a whole.
  EXPECT_DOUBLE_EQ(build->weight_bytes, 213'632);
  EXPECT_NEAR(build->cost.step, 100 + (213'632 - 32'768) / 500.0, 1e-9);
  EXPECT_NEAR(build->cost.row, 2 * (73'728 + 16'384) / 500.0, 1e-9);
  EXPECT_NEAR(build->cost.prompt_token, 2 * 73'728 / 500.0, 1e-9);
  EXPECT_NEAR(build->cost.kv_token, 256 / 500.0, 1e-9);
  // Four operations for each of 64 elements in two layers.
  EXPECT_NEAR(build->cost.product, 4 * 64 * 2 / 500.0, 1e-9);
  EXPECT_EQ(build->kv_bytes_per_token, 256);
  EXPECT_EQ(build->devices, 1);
}

TEST(WorkerBuildTest, MemoryIsWhatIsLeft) {
  const auto build = ReckonWorker(SmallModel(), Box(), 1);
  ASSERT_TRUE(build.ok()) << build.status();
  // Buffers of the backend, which the activations of so small a model do not come near.
  constexpr double kBuffers = 172 * 1048576.0 + 8.0 * 256 * 256;
  EXPECT_GT(build->activation_bytes, kBuffers);
  EXPECT_LT(build->activation_bytes, kBuffers + 10e6);
  EXPECT_DOUBLE_EQ(build->library_bytes, 1 << 30);
  EXPECT_DOUBLE_EQ(build->kept_free_bytes, 2e9);
  EXPECT_DOUBLE_EQ(build->kv_bytes_most, 2e9 - 213'632 - build->activation_bytes - (1 << 30));
}

TEST(WorkerBuildTest, OnlyAGpuHasBuffersAndLibrariesOfItsOwn) {
  Hardware host = Box();
  host.device = "cpu";
  const auto build = ReckonWorker(SmallModel(), host, 1);
  ASSERT_TRUE(build.ok()) << build.status();
  EXPECT_LT(build->activation_bytes, 10e6);
  EXPECT_EQ(build->library_bytes, 0);
}

// Projections of e4m3 stay small only where a GPU multiplies by them, and have its rate then.
TEST(WorkerBuildTest, Fp8CountsAsTheDeviceHasIt) {
  const auto floats = ReckonWorker(SmallModel(), Box(), 1);
  ModelUse model = SmallModel();
  model.config.quantization =
      QuantizationConfig{.format = QuantizationConfig::Format::kFp8, .asks_rounded_inputs = true};
  Hardware hopper = Box();
  hopper.flops["fp8"] = 2e9;
  const auto widened = ReckonWorker(model, Box(), 1);
  const auto kept = ReckonWorker(model, hopper, 1);
  ASSERT_TRUE(floats.ok() && widened.ok() && kept.ok()) << widened.status() << kept.status();
  EXPECT_EQ(widened->weight_bytes, floats->weight_bytes);
  EXPECT_EQ(widened->cost.row, floats->cost.row);
  EXPECT_DOUBLE_EQ(kept->weight_bytes, floats->weight_bytes - 73'728);
  EXPECT_DOUBLE_EQ(kept->cost.row, floats->cost.row / 2);
  model.config.quantization->asks_rounded_inputs = false;
  const auto weights_only = ReckonWorker(model, hopper, 1);
  ASSERT_TRUE(weights_only.ok()) << weights_only.status();
  EXPECT_EQ(weights_only->weight_bytes, floats->weight_bytes);
  model.config.quantization->asks_rounded_inputs = true;
  model.config.quantization->block_rows = model.config.quantization->block_cols = 128;
  const auto blocks = ReckonWorker(model, hopper, 1);
  ASSERT_TRUE(blocks.ok()) << blocks.status();
  EXPECT_EQ(blocks->weight_bytes, floats->weight_bytes);
}

TEST(WorkerBuildTest, RanksShareTheWorkAndAddSums) {
  const auto one = ReckonWorker(SmallModel(), Box(), 1);
  const auto two = ReckonWorker(SmallModel(), Box(), 2);
  ASSERT_TRUE(one.ok() && two.ok()) << two.status();
  // Two sums per layer: of 64 elements in fp32, of which a rank of two sends one size.
  const double sum = 4 * 64 * 4 / 1000.0;
  EXPECT_NEAR(two->cost.row, one->cost.row / 2 + sum, 1e-9);
  EXPECT_NEAR(two->cost.prompt_token, one->cost.prompt_token / 2 + sum, 1e-9);
  EXPECT_NEAR(two->cost.kv_token, one->cost.kv_token / 2, 1e-9);
  EXPECT_GT(two->cost.step, 100 + 4 * 7);
  EXPECT_LT(two->cost.step, one->cost.step + 4 * 7);
  EXPECT_EQ(two->kv_bytes_per_token, 256);
  EXPECT_EQ(two->devices, 2);
  // There are two KV heads, so four ranks hold copies.
  const auto four = ReckonWorker(SmallModel(), Box(), 4);
  ASSERT_TRUE(four.ok()) << four.status();
  EXPECT_EQ(four->kv_bytes_per_token, 512);
  EXPECT_EQ(four->handoff_bytes_per_token, 256);
}

TEST(WorkerBuildTest, RefusesWhatCannotBe) {
  const auto error = [](const Hardware& box, int32_t ranks, absl::StatusCode code) {
    const auto build = ReckonWorker(SmallModel(), box, ranks);
    EXPECT_EQ(build.status().code(), code);
    return std::string(build.status().message());
  };
  Hardware box = Box();
  box.memory_bytes = 2.4e9;  // of which half is more than the model takes beside libraries
  EXPECT_THAT(error(box, 1, absl::StatusCode::kResourceExhausted),
              AllOf(HasSubstr("weights"), HasSubstr("leave nothing")));
  box = Box();
  box.link.reset();
  EXPECT_THAT(error(box, 2, absl::StatusCode::kFailedPrecondition), HasSubstr("no link"));
  EXPECT_THAT(error(Box(), 8, absl::StatusCode::kFailedPrecondition), HasSubstr("8"));
  box = Box();
  box.flops = {{"float32", 1e9}};
  EXPECT_THAT(error(box, 1, absl::StatusCode::kInvalidArgument), HasSubstr("flops.bfloat16"));
}

}  // namespace
}  // namespace baton::planner
