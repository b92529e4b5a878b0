#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "common/model/load_model.h"
#include "gtest/gtest.h"
#include "tests/common/model/golden_model.h"
#include "tests/common/model/model_harness.h"

namespace baton::test {
namespace {

class GoldenLogitsTest : public testing::TestWithParam<std::tuple<std::string, Device>> {
 protected:
  GoldenModel golden_ = LoadGoldenModel(std::get<0>(GetParam()));
  Device device_ = std::get<1>(GetParam());

  // Logits after each golden position, from one step over the whole sequence.
  std::vector<std::vector<float>> ComputeLogits(LoadedModel& model) {
    std::vector<TokenId> ids = golden_.prompt;
    ids.insert(ids.end(), golden_.greedy.begin(), golden_.greedy.end());
    std::vector<int32_t> positions(ids.size());
    std::iota(positions.begin(), positions.end(), 0);
    std::vector<int32_t> blocks(ids.size() / model.kv().layout.block_size + 1);
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<int32_t>(2 * i + 1);
    const kernels::StepLayout::Sequence sequence = {.token_begin = 0,
                                                    .num_tokens = static_cast<int32_t>(ids.size()),
                                                    .context = static_cast<int32_t>(ids.size()),
                                                    .blocks = blocks};
    std::vector<int32_t> rows;
    for (const auto& entry : golden_.logits) rows.push_back(entry.position);
    Transformer& transformer = *model.transformer;
    const auto logits = transformer.Forward(
        {.tokens = ids, .positions = positions, .sequences = {&sequence, 1}, .sample_rows = rows},
        model.kv());
    EXPECT_TRUE(logits.ok()) << logits.status();
    std::vector<std::vector<float>> result;
    for (size_t i = 0; i < rows.size(); ++i) {
      const float* row = static_cast<const float*>(logits->row(i));
      result.emplace_back(row, row + logits->cols);
    }
    EXPECT_TRUE(transformer.backend().EndStep().ok());
    return result;
  }
};

// Largest difference as a share of the largest expected magnitude.
double RelativeError(const std::vector<float>& actual, const std::vector<float>& expected) {
  double error = 0;
  double scale = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error = std::max<double>(error, std::abs(actual[i] - expected[i]));
    scale = std::max<double>(scale, std::abs(expected[i]));
  }
  return error / scale;
}

TEST_P(GoldenLogitsTest, AgreeWithTransformersInFp32) {
  auto model = MustLoad(golden_.dir, device_, "float32");
  const auto logits = ComputeLogits(*model);
  for (size_t i = 0; i < logits.size(); ++i) {
    ASSERT_EQ(logits[i].size(), golden_.logits[i].values.size());
    EXPECT_LT(RelativeError(logits[i], golden_.logits[i].values), 1e-4)
        << "position " << golden_.logits[i].position;
  }
}

TEST_P(GoldenLogitsTest, GreedyTokensAreThoseOfTransformersInFp32) {
  auto model = MustLoad(golden_.dir, device_, "float32");
  RunnerDriver driver(*model);
  TestSequence sequence{.prompt = golden_.prompt};
  driver.Generate({&sequence}, static_cast<int32_t>(golden_.greedy.size()), 512);
  EXPECT_EQ(sequence.output, golden_.greedy);
}

// bf16 keeps 8 bits: the logits stay near, not equal.
TEST_P(GoldenLogitsTest, StayNearTransformersInBf16) {
  auto model = MustLoad(golden_.dir, device_, "bfloat16");
  const auto logits = ComputeLogits(*model);
  for (size_t i = 0; i < logits.size(); ++i) {
    EXPECT_LT(RelativeError(logits[i], golden_.logits[i].values), 0.05)
        << "position " << golden_.logits[i].position;
  }
}

TEST_P(GoldenLogitsTest, StayNearTransformersWithKvOfTheOtherDtype) {
  for (const auto& [dtype, kv_dtype] :
       {std::pair("float32", "bfloat16"), std::pair("bfloat16", "float32")}) {
    auto model = MustLoad(golden_.dir, device_, dtype, 512, kv_dtype);
    ASSERT_NE(model->kv().layout.dtype, model->backend->info().compute_dtype);
    const auto logits = ComputeLogits(*model);
    for (size_t i = 0; i < logits.size(); ++i) {
      EXPECT_LT(RelativeError(logits[i], golden_.logits[i].values), 0.05)
          << dtype << " position " << golden_.logits[i].position;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenLogitsTest,
                         testing::Combine(testing::ValuesIn(GoldenModelNames()),
                                          testing::ValuesIn(AllDevices())),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" +
                                  DeviceName(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace baton::test
