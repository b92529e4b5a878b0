// Models with weights of 4 and 8 bits on a GPU, against the scalar oracle with inputs as they are:
// prompts, which are multiplied by widened weights, and single tokens, which are multiplied by the
// integers.
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/model/quantize/quantize_checkpoint.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/model/device_logits.h"
#include "tests/common/model/model_harness.h"
#include "tests/fakes/scratch_folder.h"

namespace baton::test {
namespace {

constexpr int32_t kPrompt = 96;

class QuantizedModelGpuTest : public testing::TestWithParam<std::tuple<int, std::string>> {
 protected:
  void SetUp() override {
    const std::string plain = scratch_ / "plain";
    ASSERT_TRUE(WriteRandomModel({.arch = "qwen2",
                                  .hidden = 256,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .head_dim = 64,
                                  .ffn = 512,
                                  .seed = 7},
                                 plain)
                    .ok());
    const auto report = QuantizeCheckpoint(
        plain, dir(), {.layers = {.bits = std::get<0>(GetParam()), .group = 64}}, nullptr);
    ASSERT_TRUE(report.ok()) << report.status();
    for (int32_t i = 0; i < kPrompt; ++i) ids_.push_back((i * i * 11 + 5) % 256);
  }
  std::string dir() const { return scratch_ / "quantized"; }
  std::string dtype() const { return std::get<1>(GetParam()); }

  const ScratchFolder scratch_;
  std::vector<TokenId> ids_;
};

TEST_P(QuantizedModelGpuTest, LogitsAgreeWithTheCpuForManyTokensAndForFew) {
  auto loaded = TryLoad(dir(), {"cuda", "auto"}, dtype());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto model = std::move(loaded).value();
  auto oracle = MustLoad(dir(), {"reference", "exact"}, "float32");
  EXPECT_THAT(model->numerics(),
              testing::EndsWith("/w" + std::to_string(std::get<0>(GetParam())) + "g64"));
  const double tolerance = dtype() == "float32" ? 1e-4 : dtype() == "float16" ? 0.01 : 0.05;
  for (const size_t count : {size_t{1}, size_t{7}, size_t{16}, size_t{17}, ids_.size()}) {
    const std::vector<TokenId> ids(ids_.begin(), ids_.begin() + static_cast<int64_t>(count));
    const std::vector<int32_t> rows = {static_cast<int32_t>(count) - 1};
    const std::vector<float> expected = ComputeLogits(*oracle, ids, rows)[0];
    const std::vector<float> actual = ComputeLogits(*model, ids, rows)[0];
    double error = 0;
    for (size_t id = 0; id < expected.size(); ++id) {
      error = std::max<double>(error, std::abs(actual[id] - expected[id]));
    }
    EXPECT_LT(error / Scale(expected), tolerance) << count << " tokens";
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, QuantizedModelGpuTest,
                         testing::Combine(testing::Values(4, 8),
                                          testing::Values("float32", "bfloat16", "float16")),
                         [](const auto& test) {
                           return "w" + std::to_string(std::get<0>(test.param)) + "_" +
                                  std::get<1>(test.param);
                         });

// A checkpoint of e4m3: on Hopper in 16 bits it is multiplied as it is, with rounded inputs, and
// else as floats. So does a KV cache of e4m3, which both devices have.
class Fp8ModelGpuTest : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(Fp8ModelGpuTest, LogitsAgreeWithTheCpu) {
  const auto& [dtype, kv_dtype] = GetParam();
  const ScratchFolder scratch;
  ASSERT_TRUE(WriteRandomModel({.arch = "qwen2",
                                .hidden = 256,
                                .heads = 4,
                                .kv_heads = 2,
                                .head_dim = 128,
                                .ffn = 512,
                                .seed = 7},
                               scratch / "plain")
                  .ok());
  ASSERT_TRUE(
      QuantizeCheckpoint(scratch / "plain", scratch / "fp8", {.layers = {.fp8 = true}}, nullptr)
          .ok());
  auto loaded = TryLoad(scratch / "fp8", {"cuda", "auto"}, dtype, 512, kv_dtype);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto model = std::move(loaded).value();
  auto oracle = MustLoad(scratch / "fp8", {"cpu", "auto"}, "float32", 512, kv_dtype);
  EXPECT_THAT(model->numerics(), testing::EndsWith("/fp8"));
  EXPECT_EQ(model->weight_bytes<oracle->weight_bytes / 3, model->backend->info().fp8_multiple> 0);
  const double tolerance = dtype == "float32" ? (kv_dtype == "fp8" ? 0.05 : 1e-4) : 0.3;
  std::vector<TokenId> ids;
  for (const int32_t count : {1, 7, 90}) {
    while (std::ssize(ids) < count) ids.push_back((std::ssize(ids) * 37 + 5) % 256);
    const std::vector<float> expected = ComputeLogits(*oracle, ids, {count - 1})[0];
    const std::vector<float> actual = ComputeLogits(*model, ids, {count - 1})[0];
    double error = 0;
    for (size_t id = 0; id < expected.size(); ++id) {
      error = std::max<double>(error, std::abs(actual[id] - expected[id]));
    }
    EXPECT_LT(error / Scale(expected), tolerance) << count << " tokens";
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Fp8ModelGpuTest,
                         testing::Combine(testing::Values("float32", "bfloat16", "float16"),
                                          testing::Values("auto", "fp8")),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_kv_" + std::get<1>(test.param);
                         });

}  // namespace
}  // namespace baton::test
