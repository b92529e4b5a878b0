// Blocks of GGUF against what the package that defines the format makes of them
// (tests/golden/README.md).
#include "common/model/quantize/gguf_blocks.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/formats/model_config.h"
#include "common/model/quantize/quantized_reader.h"
#include "common/model/weight_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/float_convert.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/gguf_maker.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using nlohmann::json;

std::string FromHexadecimal(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

class GgufBlocksTest : public ::testing::TestWithParam<std::string> {
 protected:
  GgufBlocksTest() {
    std::ifstream in(std::string(BATON_SOURCE_DIR) + "/tests/golden/gguf/" + GetParam() + ".json");
    golden_ = json::parse(in);
    rows_ = golden_["rows"];
    cols_ = golden_["cols"];
    blocks_ = FromHexadecimal(golden_["blocks"]);
    const std::string bytes = FromHexadecimal(golden_["values"]);
    values_.resize(bytes.size() / 4);
    std::memcpy(values_.data(), bytes.data(), bytes.size());
    tensor_ = {.name = "blk.0.ffn_up.weight",
               .dtype = golden_["type"],
               .shape = {rows_, cols_},
               .data = std::as_bytes(std::span(blocks_))};
  }

  json golden_;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  std::string blocks_;
  std::vector<float> values_;
  StoredTensor tensor_;
};

TEST_P(GgufBlocksTest, ValuesAreThoseOfThePackage) {
  ASSERT_EQ(values_.size(), static_cast<size_t>(rows_ * cols_));
  std::vector<float> out(values_.size());
  const absl::Status written = WriteGgufValues(tensor_, 0, rows_, cols_, kernels::DType::kF32,
                                               reinterpret_cast<std::byte*>(out.data()));
  ASSERT_TRUE(written.ok()) << written;
  EXPECT_EQ(out, values_);
}

TEST_P(GgufBlocksTest, ScalesThatAreNoNumbersAreRefused) {
  const bool last = GetParam() == "Q6_K";
  const size_t at = last ? blocks_.size() - 2 : 0;
  blocks_[at] = '\0';
  blocks_[at + 1] = '\x7c';  // infinity
  std::vector<float> out(values_.size());
  const absl::Status written = WriteGgufValues(tensor_, 0, rows_, cols_, kernels::DType::kF32,
                                               reinterpret_cast<std::byte*>(out.data()));
  EXPECT_THAT(std::string(written.message()), ::testing::HasSubstr("no finite number"));
}

INSTANTIATE_TEST_SUITE_P(Types, GgufBlocksTest,
                         ::testing::Values("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K",
                                           "Q6_K"),
                         [](const auto& test) { return test.param; });

TEST(GgufFormTest, TakesTheBytesOfWhatScalesIt) {
  struct Case {
    const char* type;
    double cpu;
    double gpu;
  };
  for (const Case& c : {Case{"Q4_0", 0.5625, 0.5625}, Case{"Q4_1", 0.625, 0.6875},
                        Case{"Q4_K", 0.578125, 0.75}, Case{"Q6_K", 1.0703125, 1.25}}) {
    EXPECT_EQ(BytesPerWeight(FindGgufType(c.type)->form), c.cpu) << c.type;
    EXPECT_EQ(GpuBytesPerWeight(FindGgufType(c.type)->form), c.gpu) << c.type;
  }
}

// Matrices of several types that are multiplied as one keep every value.
class JoinedBlocksTest : public ::testing::TestWithParam<std::vector<std::string>> {
 protected:
  // Where all types have units, integers times these are the scales and minimums.
  static void ExpectSteps(const kernels::QuantizedTensor& weight) {
    const bool units = std::ranges::all_of(
        GetParam(), [](const std::string& type) { return FindGgufType(type)->form.unit > 0; });
    ASSERT_EQ(weight.unit_groups, units ? 256 / weight.group : 0);
    for (int64_t i = 0; units && i < weight.rows * weight.groups(); ++i) {
      ASSERT_EQ(Product(weight.scale_steps, i, weight.unit_groups), weight.scales[i]);
      if (weight.minimums == nullptr) continue;
      ASSERT_EQ(Product(weight.minimum_steps, i, weight.unit_groups), weight.minimums[i]);
    }
  }
  static float Product(const kernels::GroupSteps& steps, int64_t index, int64_t unit_groups) {
    return kernels::FloatFromF16(steps.units[index / unit_groups]) *
           static_cast<float>(steps.steps[index]);
  }
};

TEST_P(JoinedBlocksTest, HaveTheValuesOfEach) {
  constexpr int64_t kRows = 4;
  constexpr int64_t kCols = 512;
  GgufWriter writer;
  writer.Add("general.architecture", "llama");
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, uint32_t>>{{"block_count", 1},
                                                     {"context_length", 64},
                                                     {"embedding_length", 512},
                                                     {"feed_forward_length", 512},
                                                     {"attention.head_count", 2}}) {
    writer.Add("llama." + key, value);
  }
  writer.Add("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  writer.AddTensor("token_embd.weight", 0, {1, 512}, std::string(2048, '\0'));
  const std::vector<std::string> names = {"attn_q", "attn_k", "attn_v"};
  WeightItem item = {.name = "item", .cols = kCols};
  for (size_t i = 0; i < GetParam().size(); ++i) {
    const GgufTensorType& type = *FindGgufType(GetParam()[i]);
    const auto blocks = static_cast<size_t>(kRows * kCols / type.block);
    writer.AddTensor("blk.0." + names[i] + ".weight", type.id,
                     {static_cast<uint64_t>(kRows), static_cast<uint64_t>(kCols)},
                     RandomGgufBlocks(type.name, blocks, static_cast<uint32_t>(i)));
    item.ranges.push_back(
        {"model.layers.0.self_attn." + names[i].substr(5) + "_proj.weight", 0, kRows});
  }
  const ScratchFolder folder;
  const std::string path = folder.Write("m.gguf", writer.Bytes());
  const auto config = LoadModelConfig(path);
  const auto files = CheckpointFiles::Open(path);
  ASSERT_TRUE(config.ok() && files.ok()) << config.status() << files.status();
  QuantizedReader reader(*config, **files);
  const auto joined = reader.Read(item);
  ASSERT_TRUE(joined.ok()) << joined.status();
  for (size_t i = 0; i < item.ranges.size(); ++i) {
    const StoredTensor* tensor = (*files)->Find(item.ranges[i].name);
    // Two heads of two rows each: their order is the one of safetensors.
    EXPECT_EQ(tensor->head_rows, i < 2 ? 2 : 0);
    std::vector<float> values(static_cast<size_t>(kRows * kCols));
    ASSERT_TRUE(WriteGgufValues(*tensor, 0, kRows, kCols, kernels::DType::kF32,
                                reinterpret_cast<std::byte*>(values.data()))
                    .ok());
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t col = 0; col < kCols; ++col) {
        ASSERT_EQ(joined->at(static_cast<int64_t>(i) * kRows + row, col),
                  values[static_cast<size_t>(row * kCols + col)])
            << tensor->dtype << " row " << row << " column " << col;
      }
    }
  }
  ExpectSteps(*joined);
}

INSTANTIATE_TEST_SUITE_P(Kinds, JoinedBlocksTest,
                         ::testing::Values(std::vector<std::string>{"Q4_K", "Q4_K", "Q6_K"},
                                           std::vector<std::string>{"Q4_K", "Q5_K", "Q4_K"},
                                           std::vector<std::string>{"Q6_K", "Q6_K", "Q6_K"},
                                           std::vector<std::string>{"Q4_0", "Q4_1", "Q4_0"},
                                           std::vector<std::string>{"Q4_0", "Q4_0", "Q4_0"},
                                           std::vector<std::string>{"Q4_K", "Q4_1", "Q4_K"},
                                           std::vector<std::string>{"Q8_0", "Q5_K", "Q5_1"},
                                           std::vector<std::string>{"Q6_K", "Q5_0", "Q8_0"}));

}  // namespace
}  // namespace baton
