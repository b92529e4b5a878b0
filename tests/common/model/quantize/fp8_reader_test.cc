// Projections of e4m3 in every form, against the numbers that they stand for
// (tests/golden/README.md).
#include "common/model/quantize/fp8_reader.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/float_convert.h"
#include "tests/common/model/quantize/golden_checkpoint.h"

namespace baton {
namespace {

using kernels::DType;
using nlohmann::json;
using test::GoldenCheckpoint;
using test::kModule;
using ::testing::AllOf;
using ::testing::HasSubstr;

json Fp8Golden(const std::string& name) { return test::Golden("fp8", name); }

absl::StatusOr<std::vector<float>> Values(const GoldenCheckpoint& golden, int64_t begin,
                                          int64_t end) {
  std::vector<float> values(static_cast<size_t>((end - begin) * golden.cols()));
  const absl::Status read = Fp8Reader(golden.config(), golden.files())
                                .WriteValues(golden.item(begin, end), DType::kF32,
                                             reinterpret_cast<std::byte*>(values.data()));
  if (!read.ok()) return read;
  return values;
}

// Why neither way of reading takes the projection; they agree.
std::string Fp8Refusal(const json& golden) {
  const GoldenCheckpoint checkpoint(golden);
  const absl::Status checked = checkpoint.Check();
  if (!checked.ok()) return std::string(checked.message());
  const absl::Status read = Values(checkpoint, 0, checkpoint.rows()).status();
  if (checkpoint.config().quantization->fp8_by_row()) {
    Fp8Reader reader(checkpoint.config(), checkpoint.files());
    EXPECT_EQ(reader.Codes(checkpoint.item(0, checkpoint.rows())).status(), read);
  }
  return std::string(read.message());
}

class Fp8ReaderTest : public ::testing::TestWithParam<std::string> {};

TEST_P(Fp8ReaderTest, ReadsTheNumbersThatTheFormMeans) {
  const GoldenCheckpoint golden(Fp8Golden(GetParam()));
  ASSERT_TRUE(IsQuantized(golden.config(), golden.files(), golden.spec().name));
  EXPECT_EQ(Fp8Refusal(Fp8Golden(GetParam())), "");
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, golden.rows()}, {14, 19}}) {
    const auto values = Values(golden, begin, end);
    ASSERT_TRUE(values.ok()) << values.status();
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t col = 0; col < golden.cols(); ++col) {
        ASSERT_EQ((*values)[static_cast<size_t>((row - begin) * golden.cols() + col)],
                  golden.value(row, col))
            << row << ", " << col;
      }
    }
  }
}

TEST_P(Fp8ReaderTest, RoundsOnceToTheTypeOfTheComputation) {
  const GoldenCheckpoint golden(Fp8Golden(GetParam()));
  std::vector<uint16_t> values(static_cast<size_t>(golden.rows() * golden.cols()));
  ASSERT_TRUE(Fp8Reader(golden.config(), golden.files())
                  .WriteValues(golden.item(0, golden.rows()), DType::kBF16,
                               reinterpret_cast<std::byte*>(values.data()))
                  .ok());
  for (int64_t i = 0; i < golden.rows() * golden.cols(); ++i) {
    ASSERT_EQ(values[static_cast<size_t>(i)], kernels::Bf16FromFloat(golden.value(0, i))) << i;
  }
}

// What a device with products of e4m3 gets stands for the same numbers.
TEST_P(Fp8ReaderTest, GivesCodesWithTheScalesOfRows) {
  const GoldenCheckpoint golden(Fp8Golden(GetParam()));
  if (!golden.config().quantization->fp8_by_row()) return;
  Fp8Reader reader(golden.config(), golden.files());
  WeightItem twice = golden.item(14, 19);
  twice.ranges.push_back({golden.spec().name, 2, 4});
  const bool is_static = golden.config().quantization->static_inputs;
  const float input_scale = GetParam() == "ct_tensor_static" ? 0.015F : 0.02F;
  for (const auto& [item, rows] :
       {std::pair(golden.item(14, 19), std::vector<int64_t>{14, 15, 16, 17, 18}),
        std::pair(twice, std::vector<int64_t>{14, 15, 16, 17, 18, 2, 3})}) {
    const auto tensor = reader.Codes(item);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    ASSERT_EQ(tensor->dtype, DType::kFp8);
    ASSERT_EQ(tensor->rows, std::ssize(rows));
    EXPECT_EQ(tensor->input_scale, is_static ? input_scale : 0);
    for (int64_t row = 0; row < tensor->rows; ++row) {
      for (int64_t col = 0; col < golden.cols(); ++col) {
        const uint8_t code = static_cast<const uint8_t*>(tensor->data)[row * golden.cols() + col];
        ASSERT_EQ(kernels::FloatFromE4m3(code) * tensor->row_scales[row],
                  golden.value(rows[static_cast<size_t>(row)], col));
      }
    }
  }
}

TEST_P(Fp8ReaderTest, AScaleOfInputsThatFindTheirOwnIsNotUsed) {
  json golden = Fp8Golden(GetParam());
  GoldenCheckpoint given(golden);
  const auto& quantization = *given.config().quantization;
  if (quantization.static_inputs || !quantization.fp8_by_row()) return;
  for (const char* bytes : {"0000803f", "00000000"}) {
    golden["tensors"]["input_scale"] = {{"dtype", "F32"}, {"shape", {1}}, {"data", bytes}};
    const GoldenCheckpoint leftover(golden);
    ASSERT_EQ(Fp8Refusal(golden), "");
    Fp8Reader reader(leftover.config(), leftover.files());
    EXPECT_EQ(reader.Codes(leftover.item(0, leftover.rows()))->input_scale, 0);
  }
}

// The last scale is 0, and so are its codes, but for one in turn.
TEST_P(Fp8ReaderTest, TakesAScaleOfZeroForWeightsOfZeros) {
  json golden = Fp8Golden(GetParam());
  json& tensors = golden["tensors"];
  for (auto part = tensors.begin(); part != tensors.end(); ++part) {
    const std::string& suffix = part.key();
    json& tensor = part.value();
    std::string data = tensor["data"];
    if (suffix == "weight") {
      data.assign(data.size(), '0');
      data.replace(data.size() - 4, 4, "8080");  // they are 0 as well
    } else if (suffix != "input_scale") {
      const size_t digits = tensor["dtype"] == "F32" ? 8 : 4;
      data.replace(data.size() - digits, digits, digits, '0');
    }
    tensor["data"] = data;
  }
  EXPECT_EQ(Fp8Refusal(golden), "");
  std::string data = tensors["weight"]["data"];
  data.replace(data.size() - 4, 4, "0100");
  tensors["weight"]["data"] = data;
  EXPECT_THAT(Fp8Refusal(golden), AllOf(HasSubstr(kModule), HasSubstr("weight_scale"),
                                        HasSubstr("holds the scale 0"), HasSubstr("not all 0")));
}

TEST_P(Fp8ReaderTest, RefusesPartsOfOtherShapesAndTypes) {
  const json golden = Fp8Golden(GetParam());
  for (const auto& [suffix, tensor] : golden["tensors"].items()) {
    SCOPED_TRACE(suffix);
    json missing = golden;
    missing["tensors"].erase(suffix);
    EXPECT_THAT(Fp8Refusal(missing),
                AllOf(HasSubstr(kModule), HasSubstr(suffix), HasSubstr("is missing")));

    json longer = golden;
    json& shape = longer["tensors"][suffix]["shape"];
    if (shape.empty()) shape.push_back(1);
    shape[0] = 3 * shape[0].get<int64_t>();
    const std::string data = tensor["data"];
    longer["tensors"][suffix]["data"] = data + data + data;
    EXPECT_THAT(Fp8Refusal(longer),
                AllOf(HasSubstr(kModule), HasSubstr(suffix), HasSubstr("implies")));

    json other = golden;
    const std::string type = tensor["dtype"];
    other["tensors"][suffix]["dtype"] = type == "F8_E4M3" ? "F8_E5M2"
                                        : type == "F32"   ? "I32"
                                                          : "I16";
    EXPECT_THAT(Fp8Refusal(other), AllOf(HasSubstr(suffix), HasSubstr("implies")));
  }
}

TEST_P(Fp8ReaderTest, RefusesScalesThatCannotBeMeantAndCodesThatAreNoNumbers) {
  const json sound = Fp8Golden(GetParam());
  for (const auto& [suffix, tensor] : sound["tensors"].items()) {
    SCOPED_TRACE(suffix);
    const std::string type = tensor["dtype"];
    std::vector<std::string> wrong = {"00000000", "0000c0ff", "0000807f", "000080bf"};  // of F32
    if (type == "BF16") wrong = {"0000", "c0ff", "807f", "80bf"};
    if (type == "F16") wrong = {"0000", "007e", "007c", "00bc"};
    if (type == "F8_E4M3") wrong = {"7f", "ff"};
    for (const std::string& bytes : wrong) {
      json golden = sound;
      std::string data = tensor["data"];
      data.replace(data.size() - bytes.size(), bytes.size(), bytes);
      golden["tensors"][suffix]["data"] = data;
      EXPECT_THAT(Fp8Refusal(golden), AllOf(HasSubstr(kModule), HasSubstr(suffix),
                                            HasSubstr(type == "F8_E4M3" ? "NaN" : "above 0")))
          << bytes;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, Fp8ReaderTest, ::testing::ValuesIn(test::GoldenNames("fp8")),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace baton
