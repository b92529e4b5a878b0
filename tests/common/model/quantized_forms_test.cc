// The integers of one model, stored as other tools store them: the same bits where the numbers are
// the same, and where groups have zero points or an order of their own, near the floats that these
// numbers are.
#include <array>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/model/load_model.h"
#include "common/model/quantize/quantize_checkpoint.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/float_convert.h"
#include "nlohmann/json.hpp"
#include "tests/common/model/device_logits.h"
#include "tests/common/model/edit_checkpoint.h"
#include "tests/common/model/model_harness.h"
#include "tests/common/model/run_sequences.h"
#include "tests/fakes/scratch_folder.h"

namespace baton::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kGroup = 32;

enum class Form { kPacked, kBytes, kGptq, kGptqV2, kAwq, kFloats };
constexpr std::pair<Form, const char*> kForms[] = {{Form::kPacked, "pack-quantized"},
                                                   {Form::kBytes, "int-quantized"},
                                                   {Form::kGptq, "gptq"},
                                                   {Form::kGptqV2, "gptq_v2"},
                                                   {Form::kAwq, "awq"}};

// What becomes of the integers of the model.
enum class Change {
  kNone,
  kZeroPoints,  // something else than 8 stands for 0, of each group another integer
  kActOrder,    // the columns of a group do not lie beside each other
};

// A projection as every form can store it.
struct Integers {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t groups = 0;
  std::vector<int> codes;         // [rows, cols], 0 to 15
  std::vector<int> zeros;         // [rows, groups], likewise: what stands for 0
  std::vector<uint16_t> scales;   // [rows, groups], bf16
  std::vector<int32_t> group_of;  // [cols]

  int code(int64_t row, int64_t col) const { return codes[row * cols + col]; }
  int zero(int64_t row, int64_t group) const { return zeros[row * groups + group]; }
  float value(int64_t row, int64_t col) const {
    const int64_t group = group_of[col];
    return static_cast<float>(code(row, col) - zero(row, group)) *
           kernels::FloatFromBf16(scales[row * groups + group]);
  }
};

template <typename T>
TensorBytes BytesOf(const char* dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {dtype, std::move(shape), {bytes.begin(), bytes.end()}};
}

using IntegerAt = std::function<int(int64_t row, int64_t col)>;
constexpr std::array<int, 8> kInOrder = {0, 1, 2, 3, 4, 5, 6, 7};
constexpr std::array<int, 8> kAwqOrder = {0, 2, 4, 6, 1, 3, 5, 7};

// [rows, cols / 8]: eight neighbours of a row to a word, from its lowest bits on in this order.
TensorBytes PackedInRows(int64_t rows, int64_t cols, const std::array<int, 8>& order,
                         const IntegerAt& at) {
  std::vector<uint32_t> words;
  for (int64_t i = 0; i < rows * cols / 8; ++i) {
    uint32_t& word = words.emplace_back(0);
    for (int place = 0; place < 8; ++place) {
      const int64_t col = i % (cols / 8) * 8 + order[place];
      word |= static_cast<uint32_t>(at(i / (cols / 8), col) & 15) << (4 * place);
    }
  }
  return BytesOf("I32", {rows, cols / 8}, words);
}

// [rows / 8, cols]: eight neighbours of a column to a word.
TensorBytes PackedInColumns(int64_t rows, int64_t cols, const IntegerAt& at) {
  std::vector<uint32_t> words;
  for (int64_t i = 0; i < rows / 8 * cols; ++i) {
    uint32_t& word = words.emplace_back(0);
    for (int place = 0; place < 8; ++place) {
      word |= static_cast<uint32_t>(at(i / cols * 8 + place, i % cols) & 15) << (4 * place);
    }
  }
  return BytesOf("I32", {rows / 8, cols}, words);
}

// A byte less 8 for each, [rows, cols].
TensorBytes AsBytes(int64_t rows, int64_t cols, const std::vector<int>& integers) {
  std::vector<int8_t> bytes;
  for (const int integer : integers) bytes.push_back(static_cast<int8_t>(integer - 8));
  return BytesOf("I8", {rows, cols}, bytes);
}

// The integers of a projection of the model that QuantizeCheckpoint wrote, without its reader.
Integers IntegersOf(const std::string& module, const Tensors& tensors, Change change) {
  const TensorBytes& packed = tensors.at(module + ".weight_packed");
  const TensorBytes& scales = tensors.at(module + ".weight_scale");
  Integers of = {.rows = packed.shape[0], .cols = packed.shape[1] * 8, .groups = scales.shape[1]};
  for (int64_t i = 0; i < of.rows * of.cols; ++i) {
    of.codes.push_back(std::to_integer<int>(packed.data[i / 2] >> (4 * (i % 2))) & 15);
  }
  of.scales.resize(static_cast<size_t>(of.rows * of.groups));
  std::memcpy(of.scales.data(), scales.data.data(), scales.data.size());
  for (int64_t i = 0; i < of.rows * of.groups; ++i) {
    const int64_t other = (i / of.groups + 3 * (i % of.groups)) % 5 - 2;
    of.zeros.push_back(8 + (change == Change::kZeroPoints ? static_cast<int>(other) : 0));
  }
  for (int64_t col = 0; col < of.cols; ++col) {
    // 5 divides no number of columns here, so that this is a permutation of them.
    const int64_t place = change == Change::kActOrder ? (5 * col + 3) % of.cols : col;
    of.group_of.push_back(static_cast<int32_t>(place / kGroup));
  }
  return of;
}

void AddFloats(const std::string& module, const Integers& of, Tensors& to) {
  std::vector<float> values;
  for (int64_t i = 0; i < of.rows * of.cols; ++i) {
    values.push_back(of.value(i / of.cols, i % of.cols));
  }
  to[module + ".weight"] = BytesOf("F32", {of.rows, of.cols}, values);
}

void AddCompressedTensors(const std::string& module, const Integers& of, bool bytes, Tensors& to) {
  const IntegerAt code = [&](int64_t row, int64_t col) { return of.code(row, col); };
  const IntegerAt zero = [&](int64_t row, int64_t group) { return of.zero(row, group); };
  to[module + ".weight_scale"] = BytesOf("BF16", {of.rows, of.groups}, of.scales);
  to[module + ".weight_g_idx"] = BytesOf("I32", {of.cols}, of.group_of);
  if (bytes) {
    to[module + ".weight"] = AsBytes(of.rows, of.cols, of.codes);
    to[module + ".weight_zero_point"] = AsBytes(of.rows, of.groups, of.zeros);
  } else {
    to[module + ".weight_packed"] = PackedInRows(of.rows, of.cols, kInOrder, code);
    to[module + ".weight_zero_point"] = PackedInColumns(of.rows, of.groups, zero);
  }
}

// As GPTQ and AWQ do, whose matrices are transposed.
void AddTransposed(const std::string& module, const Integers& of, Form form, Tensors& to) {
  const int less = form == Form::kGptq ? 1 : 0;  // the first form stores zero points less one
  const IntegerAt code = [&](int64_t col, int64_t row) { return of.code(row, col); };
  const IntegerAt zero = [&](int64_t group, int64_t row) { return of.zero(row, group) - less; };
  std::vector<uint16_t> scales;
  for (int64_t i = 0; i < of.groups * of.rows; ++i) {
    scales.push_back(of.scales[i % of.rows * of.groups + i / of.rows]);
  }
  const bool awq = form == Form::kAwq;
  to[module + ".qweight"] = awq ? PackedInRows(of.cols, of.rows, kAwqOrder, code)
                                : PackedInColumns(of.cols, of.rows, code);
  to[module + ".qzeros"] = PackedInRows(of.groups, of.rows, awq ? kAwqOrder : kInOrder, zero);
  to[module + ".scales"] = BytesOf("BF16", {of.groups, of.rows}, scales);
  if (!awq) to[module + ".g_idx"] = BytesOf("I32", {of.cols}, of.group_of);
}

json DescriptionOf(Form form, const std::string& name, bool act_order) {
  if (form == Form::kAwq) {
    return {{"quant_method", "awq"}, {"bits", 4}, {"group_size", kGroup}, {"zero_point", true}};
  }
  if (form == Form::kGptq || form == Form::kGptqV2) {
    return {{"quant_method", "gptq"},
            {"bits", 4},
            {"group_size", kGroup},
            {"desc_act", act_order},
            {"checkpoint_format", name}};
  }
  json weights = {{"num_bits", 4},
                  {"strategy", "group"},
                  {"group_size", kGroup},
                  {"symmetric", false},
                  {"type", "int"}};
  if (act_order) weights["actorder"] = "group";
  return {{"quant_method", "compressed-tensors"},
          {"format", name},
          {"config_groups", {{"group_0", {{"weights", weights}}}}}};
}

class QuantizedFormsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    scratch_ = new ScratchFolder;
    const std::string plain = *scratch_ / "plain";
    const absl::Status written =
        WriteRandomModel({.arch = "qwen2", .head_dim = 32, .ffn = 192, .seed = 7}, plain);
    ASSERT_TRUE(written.ok()) << written;
    const auto report =
        QuantizeCheckpoint(plain, Original(), {.layers = {.bits = 4, .group = kGroup}}, nullptr);
    ASSERT_TRUE(report.ok()) << report.status();
  }
  static void TearDownTestSuite() { delete scratch_; }

  static std::string Original() { return *scratch_ / "w4"; }

  // Writes the model in a form, and says where.
  static std::string Make(Form form, const std::string& name, Change change) {
    Tensors tensors = TensorsIn(Original());
    for (const auto& [packed, tensor] : Tensors(tensors)) {
      const size_t end = packed.find(".weight_packed");
      if (end == std::string::npos) continue;
      const std::string module = packed.substr(0, end);
      const Integers of = IntegersOf(module, tensors, change);
      for (const char* part : {"_packed", "_scale", "_shape"}) {
        tensors.erase(module + ".weight" + part);
      }
      if (form == Form::kFloats) {
        AddFloats(module, of, tensors);
      } else if (form == Form::kPacked || form == Form::kBytes) {
        AddCompressedTensors(module, of, form == Form::kBytes, tensors);
      } else {
        AddTransposed(module, of, form, tensors);
      }
    }
    json config = ConfigIn(Original());
    config.erase("quantization_config");
    if (form != Form::kFloats) {
      config["quantization_config"] = DescriptionOf(form, name, change == Change::kActOrder);
    }
    const std::string dir = *scratch_ / name;
    WriteModel(dir, config, tensors);
    return dir;
  }

  static absl::StatusOr<std::unique_ptr<LoadedModel>> TryRanks(const std::string& dir,
                                                               int32_t ranks,
                                                               const std::string& cache = "") {
    return LoadOnRanks(dir, {"cpu", "auto"}, kernels::DType::kF32, ranks, cache);
  }

  // Tokens, and the bits of their log-probabilities.
  static std::vector<std::pair<TokenId, float>> Drawn(LoadedModel& model) {
    TestSequence sequence = SequenceOf(5);
    RunnerDriver(model).Generate({&sequence}, kAnswerTokens, 512);
    std::vector<std::pair<TokenId, float>> drawn;
    for (const SampledToken& sample : sequence.samples) {
      drawn.emplace_back(sample.token, sample.logprob);
    }
    return drawn;
  }

  static ScratchFolder* scratch_;
};
ScratchFolder* QuantizedFormsTest::scratch_ = nullptr;

TEST_F(QuantizedFormsTest, TheSameIntegersHaveTheSameBitsInEveryForm) {
  for (const auto& [form, name] : kForms) {
    const std::string dir = Make(form, name, Change::kNone);
    for (const char* dtype : {"float32", "bfloat16"}) {
      for (const Device& device : CpuDevices()) {
        SCOPED_TRACE(std::string(name) + " " + dtype + " " + DeviceName(device));
        auto model = MustLoad(dir, device, dtype);
        auto original = MustLoad(Original(), device, dtype);
        EXPECT_EQ(Drawn(*model), Drawn(*original));
        EXPECT_EQ(model->weight_bytes, original->weight_bytes);
        EXPECT_EQ(model->numerics(), original->numerics());
        EXPECT_NE(model->fingerprint, original->fingerprint);
      }
    }
  }
}

TEST_F(QuantizedFormsTest, ZeroPointsMeanTheSameInEveryForm) {
  auto floats =
      MustLoad(Make(Form::kFloats, "floats", Change::kZeroPoints), {"cpu", "auto"}, "float32");
  std::vector<std::pair<TokenId, float>> expected;
  for (const auto& [form, name] : kForms) {
    SCOPED_TRACE(name);
    auto model = MustLoad(Make(form, name, Change::kZeroPoints), {"cpu", "auto"}, "float32");
    ExpectNearLogits(*model, *floats, 0.05);
    if (expected.empty()) expected = Drawn(*model);
    EXPECT_EQ(Drawn(*model), expected);
    const auto alone = RunAlone(*model);
    for (const int32_t chunk : {512, 5}) EXPECT_EQ(RunTogether(*model, chunk), alone) << chunk;
  }
}

TEST_F(QuantizedFormsTest, GroupsInAnOrderOfTheirOwnRunTheSameHoweverTheyRun) {
  auto floats =
      MustLoad(Make(Form::kFloats, "floats", Change::kActOrder), {"cpu", "auto"}, "float32");
  std::vector<std::pair<TokenId, float>> expected;
  for (const auto& [form, name] : kForms) {
    if (form == Form::kAwq) continue;  // has no such order
    const std::string dir = Make(form, name, Change::kActOrder);
    for (const char* dtype : {"float32", "bfloat16"}) {
      SCOPED_TRACE(std::string(name) + " " + dtype);
      auto model = MustLoad(dir, {"cpu", "auto"}, dtype);
      const auto alone = RunAlone(*model);
      for (const int32_t chunk : {512, 5}) EXPECT_EQ(RunTogether(*model, chunk), alone) << chunk;
      if (dtype == std::string("bfloat16")) continue;
      ExpectNearLogits(*model, *floats, 0.05);
      auto oracle = MustLoad(dir, {"reference", "auto"}, dtype);
      ExpectNearLogits(*model, *oracle);
      if (expected.empty()) expected = Drawn(*model);
      EXPECT_EQ(Drawn(*model), expected);
    }
  }
}

TEST_F(QuantizedFormsTest, TwoRanksRunEveryFormTheSameHoweverItRuns) {
  std::vector<std::vector<TokenId>> expected;
  for (const auto& [form, name] : kForms) {
    SCOPED_TRACE(name);
    const std::string dir = Make(form, name, Change::kZeroPoints);
    auto one = TryRanks(dir, 1);
    auto two = TryRanks(dir, 2);
    ASSERT_TRUE(one.ok() && two.ok()) << one.status() << two.status();
    if (expected.empty()) expected = RunAlone(**two);
    EXPECT_EQ(RunTogether(**two, 5), expected);
    ExpectNearLogprobs(**two, **one);
  }
}

TEST_F(QuantizedFormsTest, TwoRanksRefuseGroupsInAnOrderOfTheirOwn) {
  for (const auto& [form, name] : {kForms[0], kForms[2]}) {
    const absl::Status status = TryRanks(Make(form, name, Change::kActOrder), 2).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("self_attn.o_proj.weight"),
                      HasSubstr("columns are not in the order of its input"),
                      HasSubstr("--tensor-parallel-size 1")));
  }
}

TEST_F(QuantizedFormsTest, ALoadCacheKeepsZeroPointsAndOrders) {
  for (const auto& [form, change] :
       {std::pair(Form::kGptq, Change::kActOrder), std::pair(Form::kAwq, Change::kZeroPoints)}) {
    const std::string name = form == Form::kGptq ? "gptq" : "awq";
    const std::string dir = Make(form, name, change);
    auto own = TryRanks(dir, 1);
    ASSERT_TRUE(own.ok()) << own.status();
    for (const char* from : {"the checkpoint", "the cache"}) {
      SCOPED_TRACE(name + " from " + from);
      auto model = TryRanks(dir, 1, *scratch_ / "cache");
      ASSERT_TRUE(model.ok()) << model.status();
      EXPECT_GE((*model)->mapped_bytes, (*own)->weight_bytes);
      EXPECT_EQ(Drawn(**model), Drawn(**own));
    }
  }
}

}  // namespace
}  // namespace baton::test
