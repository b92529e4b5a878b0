// Projections in every quantized form, as other packages define it, against the numbers that they
// stand for (tests/golden/README.md).
#include "common/model/quantize/quantized_reader.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/model/quantize/golden_checkpoint.h"

namespace baton {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

using test::GoldenCheckpoint;
using test::kModule;

json Golden(const std::string& name) { return test::Golden("quantized", name); }

std::string Refusal(const GoldenCheckpoint& golden) {
  const absl::Status checked = golden.Check();
  if (!checked.ok()) return std::string(checked.message());
  QuantizedReader reader(golden.config(), golden.files());
  return std::string(reader.Read(golden.item(0, golden.rows())).status().message());
}

class QuantizedReaderTest : public ::testing::TestWithParam<std::string> {};

TEST_P(QuantizedReaderTest, ReadsTheNumbersThatTheFormMeans) {
  const GoldenCheckpoint golden(Golden(GetParam()));
  ASSERT_TRUE(IsQuantized(golden.config(), golden.files(), golden.spec().name));
  EXPECT_EQ(Refusal(golden), "");
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
      EXPECT_THAT(Refusal(GoldenCheckpoint(missing)), HasSubstr("is missing"));
    }

    json longer = Golden(GetParam());
    json& shape = longer["tensors"][suffix]["shape"];
    shape[0] = 2 * shape[0].get<int64_t>();
    longer["tensors"][suffix]["data"] =
        tensor["data"].get<std::string>() + tensor["data"].get<std::string>();
    EXPECT_THAT(Refusal(GoldenCheckpoint(longer)),
                AllOf(HasSubstr(kModule), HasSubstr(suffix), HasSubstr("implies")));

    json other = Golden(GetParam());
    const std::string type = tensor["dtype"];
    other["tensors"][suffix]["dtype"] = type == "I32"   ? "U32"
                                        : type == "I8"  ? "U8"
                                        : type == "I64" ? "U64"
                                                        : "I16";
    EXPECT_THAT(Refusal(GoldenCheckpoint(other)), AllOf(HasSubstr(suffix), HasSubstr(type)));
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, QuantizedReaderTest,
                         ::testing::ValuesIn(test::GoldenNames("quantized")),
                         [](const auto& test) { return test.param; });

TEST(QuantizedReaderRefusals, ScalesThatAreNoNumbersAndGroupsThatAreNone) {
  json golden = Golden("gptq_w4_act_order");
  std::string scales = golden["tensors"]["scales"]["data"];
  golden["tensors"]["scales"]["data"] = scales.replace(0, 4, "007e");  // NaN
  EXPECT_THAT(Refusal(GoldenCheckpoint(golden)),
              AllOf(HasSubstr("up_proj.scales"), HasSubstr("no finite number")));

  golden = Golden("gptq_w4_act_order");
  const std::string groups = golden["tensors"]["g_idx"]["data"];
  golden["tensors"]["g_idx"]["data"] = std::string(groups).replace(0, 8, "ffffffff");
  EXPECT_THAT(Refusal(GoldenCheckpoint(golden)), HasSubstr("column 0 in group -1 of 2"));
  golden["tensors"]["g_idx"]["data"] = std::string(groups).replace(0, 8, "02000000");
  EXPECT_THAT(Refusal(GoldenCheckpoint(golden)), HasSubstr("column 0 in group 2 of 2"));
  // One group gets a column more, another one less.
  const std::string other = groups.substr(0, 8) == "00000000" ? "01000000" : "00000000";
  golden["tensors"]["g_idx"]["data"] = std::string(groups).replace(0, 8, other);
  EXPECT_THAT(Refusal(GoldenCheckpoint(golden)), HasSubstr("expected 32"));
}

// A checkpoint whose groups lie in the order in which they were quantized means nothing without the
// tensor that tells them.
TEST(QuantizedReaderRefusals, GroupsThatNoTensorTells) {
  for (const auto& [name, suffix] :
       {std::pair{"gptq_w4_act_order", "g_idx"}, std::pair{"ct_w4_act_order", "weight_g_idx"}}) {
    json golden = Golden(name);
    golden["tensors"].erase(suffix);
    EXPECT_THAT(Refusal(GoldenCheckpoint(golden)),
                AllOf(HasSubstr(std::string("up_proj.") + suffix), HasSubstr("is missing")));
  }
  json golden = Golden("gptq_w4");
  golden["tensors"].erase("g_idx");
  EXPECT_EQ(Refusal(GoldenCheckpoint(golden)), "");
}

// Zero points of weights that are said to be symmetric are not read: they may say nothing.
TEST(QuantizedReaderRefusals, ZeroPointsOfSymmetricWeights) {
  const auto symmetric = [](const char* name) {
    json golden = Golden(name);
    golden["quantization_config"]["config_groups"]["group_0"]["weights"]["symmetric"] = true;
    return golden;
  };
  const auto with = [&](const char* name, const std::string& hex) {
    json golden = symmetric(name);
    std::string& data = golden["tensors"]["weight_zero_point"]["data"].get_ref<std::string&>();
    for (size_t i = 0; i < data.size(); i += hex.size()) data.replace(i, hex.size(), hex);
    return Refusal(GoldenCheckpoint(golden));
  };
  for (const char* name : {"ct_w4_zeros", "ct_w8_zeros", "ct_int8_zeros"}) {
    SCOPED_TRACE(name);
    EXPECT_THAT(Refusal(GoldenCheckpoint(symmetric(name))),
                AllOf(HasSubstr("up_proj.weight_zero_point"), HasSubstr("symmetric")));
  }
  EXPECT_EQ(with("ct_int8_zeros", "00"), "");
  EXPECT_THAT(with("ct_int8_zeros", "ff"), HasSubstr("zero_point"));
  // Packed ones are stored with half of the range added.
  EXPECT_EQ(with("ct_w4_zeros", "88888888"), "");
  EXPECT_THAT(with("ct_w4_zeros", "00000000"), HasSubstr("zero_point"));
  EXPECT_EQ(with("ct_w8_zeros", "80808080"), "");
  // As early tools left them, not packed.
  json unpacked = symmetric("ct_w4_zeros");
  unpacked["tensors"]["weight_zero_point"] = {
      {"dtype", "I8"}, {"shape", {8, 2}}, {"data", std::string(32, '0')}};
  EXPECT_EQ(Refusal(GoldenCheckpoint(unpacked)), "");
}

TEST(QuantizedReaderRefusals, ShapesThatAreNotThatOfTheWeight) {
  json golden = Golden("ct_w4");
  std::string& shape = golden["tensors"]["weight_shape"]["data"].get_ref<std::string&>();
  const std::string type = golden["tensors"]["weight_shape"]["dtype"];
  ASSERT_EQ(type, "I64");
  shape.replace(16, 2, "20");  // 32 columns
  EXPECT_THAT(Refusal(GoldenCheckpoint(golden)),
              AllOf(HasSubstr("weight_shape"), HasSubstr("[8, 32]"), HasSubstr("[8, 64]")));
}

// A header may name as many sizes as it likes.
TEST(QuantizedReaderRefusals, ShapesAreToldInShort) {
  json golden = Golden("ct_int8");
  golden["tensors"]["weight"]["shape"] = json(std::vector<int64_t>(1000, 1));
  golden["tensors"]["weight"]["shape"][0] = 8 * 64;
  const std::string refusal = Refusal(GoldenCheckpoint(golden));
  EXPECT_THAT(refusal, AllOf(HasSubstr("[512, 1, 1"), HasSubstr("1000")));
  EXPECT_LT(refusal.size(), 400U);
}

TEST(QuantizedReaderRefusals, BytesThatAreNoIntegersOfFourBits) {
  json golden = Golden("ct_int8");
  golden["quantization_config"]["config_groups"]["group_0"]["weights"]["num_bits"] = 4;
  const auto with_codes = [&](const std::string& hex) {
    std::string codes(static_cast<size_t>(2 * 8 * 64), '0');
    golden["tensors"]["weight"]["data"] = codes.replace(codes.size() - 6, 6, hex);
    return Refusal(GoldenCheckpoint(golden));
  };
  EXPECT_EQ(with_codes("f80700"), "");  // -8 and 7
  EXPECT_THAT(with_codes("f80800"), AllOf(HasSubstr("up_proj.weight"), HasSubstr("integer 8;"),
                                          HasSubstr("expected -8 to 7")));
  EXPECT_THAT(with_codes("0000f7"), HasSubstr("integer -9;"));
}

}  // namespace
}  // namespace baton
