// The golden models on a GPU, against what transformers computed in fp32 and against the CPU
// backend in fp32. Sums in another order, and dtypes of 16 bits, may turn a near-tie of two tokens:
// those are counted and printed; any other difference fails. A near-tie: in the fp32 logits of the
// CPU the chosen token is behind the best one by at most `tie` of the largest magnitude.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "common/model/load_model.h"
#include "gtest/gtest.h"
#include "tests/common/model/device_logits.h"
#include "tests/common/model/golden_model.h"
#include "tests/common/model/model_harness.h"
#include "tests/fakes/scratch_folder.h"

namespace baton::test {
namespace {

struct Precision {
  const char* dtype;
  double logits;  // largest difference, as a share of the largest magnitude
  double tie;     // likewise
  kernels::Quantization quantization = kernels::Quantization::kNone;
};
constexpr Precision kPrecisions[] = {{"float32", 1e-4, 1e-4},
                                     {"bfloat16", 0.05, 0.05},
                                     {"float16", 0.01, 0.01},
                                     {"bfloat16", 0.3, 0.3, kernels::Quantization::kFp8}};

class GoldenGpuTest : public testing::TestWithParam<std::tuple<std::string, Precision>> {
 protected:
  void SetUp() override {
    golden_ = LoadGoldenModel(std::get<0>(GetParam()));
    precision_ = std::get<1>(GetParam());
    ids_ = golden_.prompt;
    ids_.insert(ids_.end(), golden_.greedy.begin(), golden_.greedy.end());
    for (size_t i = 0; i < golden_.greedy.size(); ++i) {
      rows_.push_back(static_cast<int32_t>(golden_.prompt.size() + i) - 1);
    }
    auto oracle = MustLoad(golden_.dir, {"cpu", "auto"}, "float32");
    expected_ = ComputeLogits(*oracle, ids_, rows_);
    model_ = LoadOnGpu(std::nullopt);
    ASSERT_NE(model_, nullptr);
  }

  std::unique_ptr<LoadedModel> LoadOnGpu(const std::optional<EosProbe>& probe) const {
    ModelOptions options;
    options.device = kernels::Device::kCuda;
    options.dtype = kernels::ParseDType(precision_.dtype);
    options.quantization = precision_.quantization;
    options.kv.tokens = 8192;
    options.limits = {.max_tokens = 512, .max_samples = 64};
    options.probe = probe;
    auto model = LoadModel(golden_.dir, options, nullptr);
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? std::move(model).value() : nullptr;
  }

  // Whether `token` in place of the best one after position `index` of the golden text is a
  // near-tie, which is counted.
  bool IsNearTie(size_t index, TokenId token) {
    const std::vector<float>& logits = expected_[index];
    const float best = logits[static_cast<size_t>(Argmax(logits))];
    ++ties_;
    return best - logits[static_cast<size_t>(token)] <= precision_.tie * Scale(logits);
  }
  void Report(const char* what, size_t tokens) const {
    std::printf("golden %s %s %s, %s: %d near-ties of %zu tokens\n",
                std::get<0>(GetParam()).c_str(), precision_.dtype,
                Name(precision_.quantization).data(), what, ties_, tokens);
    RecordProperty("near_ties", ties_);
  }
  // Up to the first near-tie, behind which the text is another.
  void CompareText(const std::vector<TokenId>& output) {
    ASSERT_GE(output.size(), golden_.greedy.size());
    for (size_t i = 0; i < golden_.greedy.size(); ++i) {
      if (output[i] == golden_.greedy[i]) continue;
      EXPECT_TRUE(IsNearTie(i, output[i]))
          << "token " << i << " is " << output[i] << ", expected " << golden_.greedy[i];
      return;
    }
  }

  GoldenModel golden_;
  Precision precision_{};
  std::vector<TokenId> ids_;
  std::vector<int32_t> rows_;  // each predicts a greedy id
  Rows expected_;              // of the CPU, [rows, vocab]
  std::unique_ptr<LoadedModel> model_;
  int ties_ = 0;
};

TEST_P(GoldenGpuTest, LogitsAgreeWithTransformers) {
  std::vector<int32_t> rows;
  for (const auto& entry : golden_.logits) rows.push_back(entry.position);
  const Rows actual = ComputeLogits(*model_, ids_, rows);
  double worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const std::vector<float>& expected = golden_.logits[i].values;
    ASSERT_EQ(actual[i].size(), expected.size());
    double error = 0;
    for (size_t id = 0; id < expected.size(); ++id) {
      error = std::max<double>(error, std::abs(actual[i][id] - expected[id]));
    }
    worst = std::max(worst, error / Scale(expected));
    EXPECT_LT(error / Scale(expected), precision_.logits)
        << "position " << golden_.logits[i].position;
  }
  std::printf("golden %s %s %s: logits differ by at most %.2g of their scale\n",
              std::get<0>(GetParam()).c_str(), precision_.dtype,
              Name(precision_.quantization).data(), worst);
}

// The normed state from one step, the first layer's from a step per token.
TEST_P(GoldenGpuTest, ProbesSeeTheStatesOfTransformers) {
  const auto hidden = static_cast<int32_t>(golden_.hidden.at(0).normed.size());
  for (const std::optional<int32_t> layer : {std::optional<int32_t>(), std::optional(0)}) {
    model_.reset();
    model_ = LoadOnGpu(ElementsOfState(hidden, layer));
    ASSERT_NE(model_, nullptr);
    for (const GoldenModel::Hidden& state : golden_.hidden) {
      RunnerDriver driver(*model_);
      TestSequence sequence{.prompt = ids_};
      sequence.prompt.resize(static_cast<size_t>(state.position) + 1);
      driver.Generate({&sequence}, 1, layer.has_value() ? 1 : 512);
      const std::vector<float>& actual = sequence.samples[0].probe;
      const std::vector<float>& expected = layer.has_value() ? state.layers[0] : state.normed;
      double error = 0;
      for (size_t i = 0; i < actual.size(); ++i) {
        error = std::max<double>(error, std::abs(actual[i] - expected[i]));
      }
      EXPECT_EQ(static_cast<int32_t>(actual.size()), std::min(hidden, kMaxEosProbeDims));
      EXPECT_LT(error / Scale(expected), precision_.logits) << "position " << state.position;
    }
  }
}

// Draws each token behind the golden text before it.
TEST_P(GoldenGpuTest, EachTokenIsTheGoldenOne) {
  const Rows actual = ComputeLogits(*model_, ids_, rows_);
  for (size_t i = 0; i < actual.size(); ++i) {
    const int32_t token = Argmax(actual[i]);
    if (token == golden_.greedy[i]) continue;
    EXPECT_TRUE(IsNearTie(i, token))
        << "token " << i << " is " << token << ", expected " << golden_.greedy[i];
  }
  Report("each token", actual.size());
}

// Generates by prefill and captured decode steps.
TEST_P(GoldenGpuTest, GeneratesTheGoldenText) {
  RunnerDriver driver(*model_);
  TestSequence sequence{.prompt = golden_.prompt};
  driver.Generate({&sequence}, static_cast<int32_t>(golden_.greedy.size()), 512);
  CompareText(sequence.output);
  Report("generated", golden_.greedy.size());
}

// Generates in chunks beside other sequences, and with tokens that never reach the host before they
// are fed.
TEST_P(GoldenGpuTest, GeneratesTheGoldenTextAheadOfTheHost) {
  constexpr size_t kSequences = 5;
  RunnerDriver driver(*model_);
  std::vector<TestSequence> sequences(kSequences);
  std::vector<TestSequence*> all;
  for (TestSequence& sequence : sequences) {
    sequence.prompt = golden_.prompt;
    all.push_back(&sequence);
  }
  // The others write other texts.
  for (size_t i = 1; i < kSequences; ++i) {
    sequences[i].sampling.temperature = 1;
    sequences[i].sampling.seed = i;
  }
  driver.Generate(all, 1, 16);
  driver.DecodeAhead(all, static_cast<int32_t>(golden_.greedy.size()) - 1);
  CompareText(sequences[0].output);
  Report("ahead of the host", golden_.greedy.size());
}

std::string NameOf(const testing::TestParamInfo<GoldenGpuTest::ParamType>& test) {
  const Precision& precision = std::get<1>(test.param);
  return std::get<0>(test.param) + "_" + precision.dtype +
         (precision.quantization == kernels::Quantization::kNone ? "" : "_fp8");
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenGpuTest,
                         testing::Combine(testing::ValuesIn(GoldenModelNames()),
                                          testing::ValuesIn(kPrecisions)),
                         NameOf);

// Two steps out or one: the same kernels over the same rows, and so the same bits.
TEST(DeviceFeedGpuTest, TokensAreThoseOfOneStepAtATime) {
  const ScratchFolder dir;
  ASSERT_TRUE(WriteRandomModel({.layers = 3,
                                .hidden = 512,
                                .heads = 8,
                                .kv_heads = 2,
                                .head_dim = 64,
                                .ffn = 1024,
                                .vocab = 4096},
                               dir / "model")
                  .ok());
  ModelOptions options;
  options.device = kernels::Device::kCuda;
  options.kv.tokens = 16384;
  options.limits = {.max_tokens = 512, .max_samples = 64};
  auto model = LoadModel(dir / "model", options, nullptr);
  ASSERT_TRUE(model.ok()) << model.status();
  constexpr int32_t kSequences = 13;
  constexpr int32_t kSteps = 40;
  std::vector<TestSequence> runs[2];
  for (std::vector<TestSequence>& sequences : runs) {
    sequences.resize(kSequences);
    std::vector<TestSequence*> all;
    for (int32_t i = 0; i < kSequences; ++i) {
      TestSequence& sequence = sequences[static_cast<size_t>(i)];
      for (int32_t p = 0; p < 5 + 11 * i; ++p) sequence.prompt.push_back((p * 13 + i) % 256);
      sequence.sampling.temperature = i % 3 == 0 ? 0.0F : 1.0F;
      sequence.sampling.seed = static_cast<uint64_t>(i);
      if (i % 4 == 1) sequence.sampling.repetition_penalty = 1.3F;
      if (i % 4 == 2) sequence.sampling.frequency_penalty = 0.5F;
      if (i % 4 == 3) sequence.sampling.top_p = 0.9F;
      all.push_back(&sequence);
    }
    RunnerDriver driver(**model);
    driver.Generate(all, 1, 32);
    if (&sequences == &runs[0]) {
      driver.Generate(all, 1 + kSteps, 1);
    } else {
      driver.DecodeAhead(all, kSteps);
    }
  }
  for (size_t i = 0; i < kSequences; ++i) {
    EXPECT_EQ(runs[0][i].output, runs[1][i].output) << "sequence " << i;
    for (size_t step = 0; step < runs[0][i].samples.size(); ++step) {
      EXPECT_EQ(runs[0][i].samples[step].logprob, runs[1][i].samples[step].logprob);
    }
  }
}

}  // namespace
}  // namespace baton::test
