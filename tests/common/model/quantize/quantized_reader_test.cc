// Projections in every quantized form, as other packages define it, against the numbers that they
// stand for (tests/golden/README.md).
#include "common/model/quantize/quantized_reader.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/formats/quantization_config.h"
#include "common/model/quantize/quantized_parts.h"
#include "common/model/quantize/safetensors_writer.h"
#include "common/model/weight_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kModule[] = "model.layers.0.mlp.up_proj";

json Golden(const std::string& name) {
  std::ifstream in(std::string(BATON_SOURCE_DIR) + "/tests/golden/quantized/" + name + ".json");
  return json::parse(in);
}

std::vector<std::string> GoldenNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(BATON_SOURCE_DIR) +
                                                               "/tests/golden/quantized")) {
    names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string BytesOf(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// A checkpoint with the tensors of one golden projection, which a test may change.
class GoldenCheckpoint {
 public:
  explicit GoldenCheckpoint(json golden) : golden_(std::move(golden)) {
    std::vector<TensorToWrite> planned;
    std::string data;
    for (const auto& [suffix, tensor] : golden_["tensors"].items()) {
      const std::string bytes = BytesOf(tensor["data"]);
      planned.push_back({std::string(kModule) + "." + suffix, tensor["dtype"], tensor["shape"],
                         static_cast<int64_t>(bytes.size())});
      data += bytes;
    }
    const auto writer = SafetensorsWriter::Create(dir_ / "model.safetensors", planned).value();
    BATON_CHECK(writer->Write(std::as_bytes(std::span(data))).ok());
    BATON_CHECK(writer->Close().ok());
    auto quantization = ReadQuantizationConfig(golden_, "config.json");
    BATON_CHECK(quantization.ok()) << quantization.status().ToString();
    config_.quantization = *quantization;
    files_ = CheckpointFiles::Open(dir_.path()).value();
  }

  int64_t rows() const { return golden_["rows"]; }
  int64_t cols() const { return golden_["cols"]; }
  float value(int64_t row, int64_t col) const { return golden_["values"][row * cols() + col]; }
  const ModelConfig& config() const { return config_; }
  const CheckpointFiles& files() const { return *files_; }
  TensorSpec spec() const { return {std::string(kModule) + ".weight", {rows(), cols()}}; }
  WeightItem item(int64_t begin, int64_t end) const {
    return {.name = "item", .ranges = {{spec().name, begin, end}}, .cols = cols()};
  }
  std::string Refusal() const {
    const absl::Status checked = CheckQuantizedParts(*config_.quantization, *files_, spec());
    if (!checked.ok()) return std::string(checked.message());
    return std::string(QuantizedReader(config_, *files_).Read(item(0, rows())).status().message());
  }

 private:
  const json golden_;
  const ScratchFolder dir_;
  ModelConfig config_;
  std::unique_ptr<CheckpointFiles> files_;
};

class QuantizedReaderTest : public ::testing::TestWithParam<std::string> {};

TEST_P(QuantizedReaderTest, ReadsTheNumbersThatTheFormMeans) {
  const GoldenCheckpoint golden(Golden(GetParam()));
  ASSERT_TRUE(IsQuantized(golden.config(), golden.files(), golden.spec().name));
  EXPECT_EQ(golden.Refusal(), "");
  QuantizedReader reader(golden.config(), golden.files());
  const auto tensor = reader.Read(golden.item(0, golden.rows()));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  const bool shuffled = GetParam().find("act_order") != std::string::npos;
  EXPECT_EQ(tensor->input_of != nullptr, shuffled);
  const bool zeros = GetParam().find("zeros") != std::string::npos ||
                     (GetParam().find("symmetric") == std::string::npos &&
                      golden.config().quantization->zero_added == 1) ||
                     GetParam() == "gptq_v2_w4" || GetParam() == "awq_w4";
  EXPECT_EQ(tensor->zero_points != nullptr, zeros);
  for (int64_t row = 0; row < golden.rows(); ++row) {
    for (int64_t col = 0; col < golden.cols(); ++col) {
      const int64_t input = shuffled ? tensor->input_of[col] : col;
      ASSERT_EQ(tensor->at(row, col), golden.value(row, input)) << row << ", " << col;
    }
  }
}

TEST_P(QuantizedReaderTest, ReadsSomeOfTheRows) {
  const GoldenCheckpoint golden(Golden(GetParam()));
  QuantizedReader reader(golden.config(), golden.files());
  const auto tensor = reader.Read(golden.item(2, 7));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  ASSERT_EQ(tensor->rows, 5);
  const int64_t input = tensor->input_of != nullptr ? tensor->input_of[61] : 61;
  for (int64_t row = 0; row < 5; ++row) {
    ASSERT_EQ(tensor->at(row, 61), golden.value(row + 2, input)) << row;
  }
}

TEST_P(QuantizedReaderTest, RefusesPartsOfOtherShapesAndTypes) {
  const json golden = Golden(GetParam());
  for (const auto& [suffix, tensor] : golden["tensors"].items()) {
    SCOPED_TRACE(suffix);
    json missing = Golden(GetParam());
    missing["tensors"].erase(suffix);
    const bool optional = suffix == "g_idx" || suffix == "weight_g_idx" || suffix == "weight_shape";
    if (!optional) {
      EXPECT_THAT(GoldenCheckpoint(missing).Refusal(), HasSubstr("is missing"));
    }

    json longer = Golden(GetParam());
    json& shape = longer["tensors"][suffix]["shape"];
    shape[0] = 2 * shape[0].get<int64_t>();
    longer["tensors"][suffix]["data"] =
        tensor["data"].get<std::string>() + tensor["data"].get<std::string>();
    EXPECT_THAT(GoldenCheckpoint(longer).Refusal(),
                AllOf(HasSubstr(kModule), HasSubstr(suffix), HasSubstr("implies")));

    json other = Golden(GetParam());
    const std::string type = tensor["dtype"];
    other["tensors"][suffix]["dtype"] = type == "I32"   ? "U32"
                                        : type == "I8"  ? "U8"
                                        : type == "I64" ? "U64"
                                                        : "I16";
    EXPECT_THAT(GoldenCheckpoint(other).Refusal(), AllOf(HasSubstr(suffix), HasSubstr(type)));
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, QuantizedReaderTest, ::testing::ValuesIn(GoldenNames()),
                         [](const auto& test) { return test.param; });

TEST(QuantizedReaderRefusals, ScalesThatAreNoNumbersAndGroupsThatAreNone) {
  json golden = Golden("gptq_w4_act_order");
  std::string scales = golden["tensors"]["scales"]["data"];
  golden["tensors"]["scales"]["data"] = scales.replace(0, 4, "007e");  // NaN
  EXPECT_THAT(GoldenCheckpoint(golden).Refusal(),
              AllOf(HasSubstr("up_proj.scales"), HasSubstr("no finite number")));

  golden = Golden("gptq_w4_act_order");
  const std::string groups = golden["tensors"]["g_idx"]["data"];
  golden["tensors"]["g_idx"]["data"] = std::string(groups).replace(0, 8, "ffffffff");
  EXPECT_THAT(GoldenCheckpoint(golden).Refusal(), HasSubstr("column 0 in group -1 of 2"));
  golden["tensors"]["g_idx"]["data"] = std::string(groups).replace(0, 8, "02000000");
  EXPECT_THAT(GoldenCheckpoint(golden).Refusal(), HasSubstr("column 0 in group 2 of 2"));
  // One group gets a column more, another one less.
  const std::string other = groups.substr(0, 8) == "00000000" ? "01000000" : "00000000";
  golden["tensors"]["g_idx"]["data"] = std::string(groups).replace(0, 8, other);
  EXPECT_THAT(GoldenCheckpoint(golden).Refusal(), HasSubstr("expected 32"));
}

}  // namespace
}  // namespace baton
