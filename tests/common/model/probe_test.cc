// The products of a probe: against the states that transformers has, and the same bits however a
// sequence was run.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common/formats/eos_probe_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/model/golden_model.h"
#include "tests/common/model/model_harness.h"
#include "tests/fakes/scratch_folder.h"

namespace baton::test {
namespace {

using testing::HasSubstr;

// The products after the tokens up to `position`.
std::vector<float> ProductsAt(LoadedModel& model, const GoldenModel& golden, int32_t position) {
  TestSequence sequence{.prompt = golden.prompt};
  sequence.prompt.insert(sequence.prompt.end(), golden.greedy.begin(), golden.greedy.end());
  sequence.prompt.resize(static_cast<size_t>(position) + 1);
  RunnerDriver driver(model);
  driver.Generate({&sequence}, 1, 512);
  return sequence.samples[0].probe;
}

// Largest difference as a share of the largest expected magnitude.
double Error(const std::vector<float>& actual, const std::vector<float>& expected) {
  double worst = 0;
  double scale = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    worst = std::max<double>(worst, std::abs(actual[i] - expected[i]));
    scale = std::max<double>(scale, std::abs(expected[i]));
  }
  return worst / scale;
}

// The root of the mean squared difference as a share of that of the expected values.
double RootMeanSquareError(const std::vector<float>& actual, const std::vector<float>& expected) {
  double squares = 0;
  double size = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    squares += std::pow(double{actual[i]} - expected[i], 2);
    size += std::pow(double{expected[i]}, 2);
  }
  return std::sqrt(squares / size);
}

class GoldenProbeTest : public testing::TestWithParam<std::tuple<std::string, Device>> {
 protected:
  // Compares at every position that the golden file has; `bound` as a share of the largest element.
  void Compare(std::optional<int32_t> layer, const char* dtype, double bound) {
    const GoldenModel golden = LoadGoldenModel(std::get<0>(GetParam()));
    ASSERT_FALSE(golden.hidden.empty());
    const auto hidden = static_cast<int32_t>(golden.hidden[0].normed.size());
    auto model = MustLoad(golden.dir, std::get<1>(GetParam()), dtype, 512, "auto",
                          ElementsOfState(hidden, layer));
    for (const GoldenModel::Hidden& state : golden.hidden) {
      const std::vector<float> products = ProductsAt(*model, golden, state.position);
      ASSERT_EQ(static_cast<int32_t>(products.size()), std::min(hidden, kMaxEosProbeDims));
      const auto& expected =
          layer.has_value() ? state.layers[static_cast<size_t>(*layer)] : state.normed;
      SCOPED_TRACE(testing::Message()
                   << "layer " << layer.value_or(-1) << " position " << state.position);
      EXPECT_LT(RootMeanSquareError(products, expected), bound);
      const int version = model->transformer->backend().info().attention_version;
      EXPECT_LT(Error(products, expected), version == 2 ? 1.2 * bound : bound);
    }
  }
};

TEST_P(GoldenProbeTest, SeesTheNormedStateOfTransformersInFp32) {
  Compare(std::nullopt, "float32", 1e-4);
}

// bf16 keeps 8 bits: the states stay near, not equal. One model is 0.044 off at one place, with
// every instruction set; where attention rounds its weights as well, one element of it is 0.0504.
TEST_P(GoldenProbeTest, SeesNearTheNormedStateOfTransformersInBf16) {
  Compare(std::nullopt, "bfloat16", 0.05);
}

TEST_P(GoldenProbeTest, SeesTheStateAfterEachLayerOfTransformersInFp32) {
  const GoldenModel golden = LoadGoldenModel(std::get<0>(GetParam()));
  for (size_t layer = 0; layer < golden.hidden[0].layers.size(); ++layer) {
    Compare(static_cast<int32_t>(layer), "float32", 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenProbeTest,
                         testing::Combine(testing::ValuesIn(GoldenModelNames()),
                                          testing::ValuesIn(AllDevices())),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" +
                                  DeviceName(std::get<1>(test.param));
                         });

constexpr int32_t kHidden = 64;
constexpr int32_t kLayers = 3;
constexpr int32_t kSequences = 12;
constexpr int32_t kTokens = 10;

struct Case {
  Device device;
  std::string dtype;
  std::optional<int32_t> layer;
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const Device& device : CpuDevices()) {
    for (const char* dtype : {"float32", "bfloat16"}) {
      for (const std::optional<int32_t> layer :
           {std::optional<int32_t>(), std::optional(1), std::optional(kLayers - 1)}) {
        cases.push_back({device, dtype, layer});
      }
    }
  }
  return cases;
}

EosProbe WithBiases(std::optional<int32_t> layer) {
  EosProbe probe = MakeRandomEosProbe(kHidden, 37, layer, 3).value();
  for (int32_t d = 0; d < probe.dims; ++d) probe.biases.push_back(0.25F * static_cast<float>(d));
  return probe;
}

class ProbeTest : public testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() {
    dir_ = new ScratchFolder;
    const absl::Status written = WriteRandomModel({.layers = kLayers,
                                                   .hidden = kHidden,
                                                   .heads = 4,
                                                   .kv_heads = 2,
                                                   .dtype = "bfloat16",
                                                   .seed = 11},
                                                  *dir_ / "m");
    ASSERT_TRUE(written.ok()) << written;
  }
  static void TearDownTestSuite() { delete dir_; }

  void SetUp() override {
    model_ = MustLoad(*dir_ / "m", GetParam().device, GetParam().dtype, 512, "auto",
                      WithBiases(GetParam().layer));
    for (int32_t i = 0; i < kSequences; ++i) {
      RunnerDriver driver(*model_);
      alone_.push_back(Sequence(i));
      driver.Generate({&alone_.back()}, kTokens, 512);
    }
  }

  static TestSequence Sequence(int32_t index) {
    TestSequence sequence;
    for (int32_t i = 0; i < 1 + index * 5; ++i) {
      sequence.prompt.push_back((index * 31 + i * i * 7) % 256);
    }
    sequence.sampling.temperature = index % 2 == 0 ? 0.0F : 0.9F;
    sequence.sampling.seed = 40 + static_cast<uint64_t>(index);
    return sequence;
  }

  void ExpectAsAlone(const TestSequence& sequence, int32_t index) const {
    const TestSequence& alone = alone_[static_cast<size_t>(index)];
    ASSERT_EQ(sequence.output, alone.output);
    ASSERT_EQ(sequence.samples.size(), alone.samples.size());
    for (size_t i = 0; i < alone.samples.size(); ++i) {
      ASSERT_EQ(alone.samples[i].probe.size(), 37u);
      EXPECT_EQ(sequence.samples[i].probe, alone.samples[i].probe)
          << "sequence " << index << " token " << i;
    }
  }

  static ScratchFolder* dir_;
  std::unique_ptr<LoadedModel> model_;
  std::vector<TestSequence> alone_;
};
ScratchFolder* ProbeTest::dir_ = nullptr;

TEST_P(ProbeTest, BatchedAndChunkedEqualAlone) {
  for (const int32_t chunk : {512, 7}) {
    std::vector<TestSequence> sequences;
    std::vector<TestSequence*> pointers;
    for (int32_t i = 0; i < kSequences; ++i) sequences.push_back(Sequence(i));
    for (TestSequence& sequence : sequences) pointers.push_back(&sequence);
    RunnerDriver driver(*model_);
    driver.Generate(pointers, kTokens, chunk);
    EXPECT_EQ(driver.largest_batch(), kSequences);
    for (int32_t i = 0; i < kSequences; ++i) ExpectAsAlone(sequences[i], i);
  }
}

TEST_P(ProbeTest, RecomputedAfterPreemptionEqualsAlone) {
  RunnerDriver driver(*model_);
  TestSequence sequence = Sequence(6), other = Sequence(3);
  driver.Generate({&sequence, &other}, kTokens / 2, 16);
  driver.Preempt(sequence);
  driver.Generate({&sequence, &other}, kTokens, 16);
  ExpectAsAlone(sequence, 6);
  ExpectAsAlone(other, 3);
}

// With the state goes what was drawn from it: a probe changes no token.
TEST_P(ProbeTest, TokensAreThoseWithoutAProbe) {
  auto without = MustLoad(*dir_ / "m", GetParam().device, GetParam().dtype);
  for (int32_t i = 0; i < kSequences; i += 3) {
    RunnerDriver driver(*without);
    TestSequence sequence = Sequence(i);
    driver.Generate({&sequence}, kTokens, 512);
    EXPECT_EQ(sequence.output, alone_[static_cast<size_t>(i)].output);
    EXPECT_TRUE(sequence.samples[0].probe.empty());
    EXPECT_EQ(sequence.samples[0].logprob, alone_[static_cast<size_t>(i)].samples[0].logprob);
  }
}

TEST_P(ProbeTest, BiasesAreAdded) {
  EosProbe plain = WithBiases(GetParam().layer);
  const std::vector<float> biases = std::move(plain.biases);
  plain.biases.clear();
  auto model = MustLoad(*dir_ / "m", GetParam().device, GetParam().dtype, 512, "auto", plain);
  RunnerDriver driver(*model);
  TestSequence sequence = Sequence(5);
  driver.Generate({&sequence}, kTokens, 512);
  for (size_t i = 0; i < sequence.samples.size(); ++i) {
    for (size_t d = 0; d < biases.size(); ++d) {
      EXPECT_NEAR(sequence.samples[i].probe[d] + biases[d], alone_[5].samples[i].probe[d], 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ProbeTest, testing::ValuesIn(AllCases()), [](const auto& test) {
  return DeviceName(test.param.device) + "_" + test.param.dtype + "_" +
         (test.param.layer.has_value() ? "layer" + std::to_string(*test.param.layer) : "normed");
});

class ProbeRanksTest : public testing::TestWithParam<Device> {};

std::unique_ptr<LoadedModel> LoadOnRanks(const std::string& dir, const Device& device,
                                         int32_t ranks, std::optional<int32_t> layer) {
  ModelOptions options;
  options.device = *kernels::ParseDevice(device.device);
  options.isa = device.isa;
  options.dtype = kernels::DType::kF32;
  options.threads = 2;
  options.tensor_parallel_size = ranks;
  options.kv.tokens = 1024;
  options.limits = {.max_tokens = 64, .max_samples = 8};
  options.probe = WithBiases(layer);
  auto model = LoadModel(dir, options, nullptr);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

// The state is whole on every rank, so that the products do not depend on how many there are.
TEST_P(ProbeRanksTest, ProductsDoNotDependOnTheRanks) {
  ScratchFolder dir;
  const absl::Status written = WriteRandomModel({.layers = kLayers,
                                                 .hidden = kHidden,
                                                 .heads = 8,
                                                 .kv_heads = 2,
                                                 .dtype = "float32",
                                                 .seed = 2},
                                                dir / "m");
  ASSERT_TRUE(written.ok()) << written;
  for (const std::optional<int32_t> layer : {std::optional<int32_t>(), std::optional(1)}) {
    TestSequence expected;
    for (const int32_t ranks : {1, 2, 4}) {
      auto model = LoadOnRanks(dir / "m", GetParam(), ranks, layer);
      ASSERT_NE(model, nullptr);
      TestSequence sequence{.prompt = {5, 80, 200, 7, 19, 33}};
      RunnerDriver driver(*model);
      driver.Generate({&sequence}, 6, 4);
      if (ranks == 1) expected = sequence;
      ASSERT_EQ(sequence.output, expected.output);
      for (size_t i = 0; i < sequence.samples.size(); ++i) {
        ASSERT_EQ(sequence.samples[i].probe.size(), 37u);
        EXPECT_LT(Error(sequence.samples[i].probe, expected.samples[i].probe), 1e-4) << ranks;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ProbeRanksTest, testing::ValuesIn(AllDevices()),
                         [](const auto& test) { return DeviceName(test.param); });

class ProbeRefusalTest : public testing::Test {
 protected:
  std::string Refusal(const EosProbe& probe) {
    const GoldenModel golden = LoadGoldenModel("llama31_hd16");
    ModelOptions options;
    options.kv.tokens = 64;
    options.probe = probe;
    const auto model = LoadModel(golden.dir, options, nullptr);
    if (model.ok()) return "taken";
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(model.status().message());
  }
  EosProbe good_ = ElementsOfState(64, 2);
};

TEST_F(ProbeRefusalTest, AProbeThatDoesNotFitTheModel) {
  EXPECT_EQ(Refusal(good_), "taken");
  EXPECT_THAT(Refusal(ElementsOfState(63, std::nullopt)),
              HasSubstr("hidden size of 63 and the model has 64"));
  EXPECT_THAT(Refusal(ElementsOfState(64, 3)), HasSubstr("layer 3 and the model has 3"));
}

TEST_F(ProbeRefusalTest, AProbeThatIsNone) {
  EosProbe probe = good_;
  probe.dims = 65;
  EXPECT_THAT(Refusal(probe), HasSubstr("65 directions; expected 1 to 64"));
  probe = good_;
  probe.directions.pop_back();
  EXPECT_THAT(Refusal(probe), HasSubstr("expected 4096"));
  probe = good_;
  probe.biases = {1};
  EXPECT_THAT(Refusal(probe), HasSubstr("1 biases for 64 directions"));
  probe = good_;
  probe.layer = -1;
  EXPECT_THAT(Refusal(probe), HasSubstr("layer -1"));
  probe = good_;
  probe.directions[7] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Refusal(probe), HasSubstr("not finite"));
}

}  // namespace
}  // namespace baton::test
