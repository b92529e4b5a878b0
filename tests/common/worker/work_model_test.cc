// What the utilization gauges are made of.
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/worker/worker_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/model/model_harness.h"
#include "tests/fakes/log_text.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr kernels::MachineLimits kLimits = {.flops_per_s = 4e9, .read_bytes_per_s = 2e9};

class WorkModelTest : public testing::Test {
 protected:
  WorkModelTest() {
    const absl::Status written = WriteRandomModel({.dtype = "float32"}, dir_ / "model");
    EXPECT_TRUE(written.ok()) << written;
  }
  std::unique_ptr<LoadedModel> Load(int32_t ranks) {
    ModelOptions options;
    options.tensor_parallel_size = options.threads = ranks;
    options.kv.tokens = 256;
    options.limits = {.max_tokens = 16, .max_samples = 2};
    auto model = LoadModel(dir_ / "model", options, nullptr);
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? *std::move(model) : nullptr;
  }

  const ScratchFolder dir_;
};

TEST_F(WorkModelTest, CountsWhatEveryRankReads) {
  const auto whole = Load(1);
  const auto cut = Load(2);
  ASSERT_TRUE(whole != nullptr && cut != nullptr);
  ASSERT_EQ(2 * cut->kv().layout.block_bytes(), whole->kv().layout.block_bytes());
  const auto one = WorkModelOf(*whole, kLimits);
  const auto two = WorkModelOf(*cut, kLimits);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_GT(one->block_bytes, 0);
  EXPECT_EQ(two->block_bytes, one->block_bytes);
  EXPECT_EQ(two->decode_flops_per_token, one->decode_flops_per_token);
  EXPECT_EQ(two->peak_flops_per_s, 4e9) << "the ranks share this host";
  EXPECT_EQ(two->peak_read_bytes_per_s, 2e9);
}

// The KV cache may have left too little memory to measure with.
TEST_F(WorkModelTest, AMeasurementThatFailsCostsTwoGaugesOnly) {
  const auto model = Load(1);
  ASSERT_TRUE(model != nullptr);
  const LogText log;
  const auto work = WorkModelOf(*model, absl::ResourceExhaustedError("the GPU needs 1 byte more"));
  ASSERT_TRUE(work.ok()) << work.status();
  EXPECT_EQ(work->peak_flops_per_s, 0);
  EXPECT_EQ(work->peak_read_bytes_per_s, 0);
  EXPECT_GT(work->prefill_flops_per_token, 0);
  EXPECT_THAT(log.str(), HasSubstr("the GPU needs 1 byte more; baton_model_flops_utilization and "
                                   "baton_memory_bandwidth_utilization stay 0"));
}

TEST_F(WorkModelTest, ADeviceThatFailedIsAnError) {
  const auto model = Load(1);
  ASSERT_TRUE(model != nullptr);
  const absl::Status fault =
      MakeError(absl::StatusCode::kInternal, {.reason = Reason::kDeviceFault}, "an illegal access");
  EXPECT_EQ(WorkModelOf(*model, fault).status(), fault);
}

}  // namespace
}  // namespace baton
