// Same tokens however a sequence was run: the tests of DESIGN's sixth principle below the
// scheduler.
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/common/model/model_harness.h"
#include "tests/fakes/scratch_folder.h"

namespace baton::test {
namespace {

struct Case {
  Device device;
  std::string dtype;
  bool sampled = false;  // else greedy
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const Device& device : CpuDevices()) {
    for (const char* dtype : {"float32", "bfloat16"}) {
      for (const bool sampled : {false, true}) cases.push_back({device, dtype, sampled});
    }
  }
  return cases;
}

constexpr int32_t kTokens = 16;  // generated per sequence
constexpr int32_t kSequences = 32;

class TokenIdentityTest : public testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() {
    dir_ = new ScratchFolder;
    for (const char* arch : {"llama", "mistral", "qwen2", "qwen3"}) {
      const absl::Status written = WriteRandomModel(
          {.arch = arch, .head_dim = 24, .dtype = "bfloat16", .seed = 7}, *dir_ / arch);
      ASSERT_TRUE(written.ok()) << written;
    }
    // A window that most of the contexts below outgrow.
    std::ifstream in(*dir_ / "mistral/config.json");
    nlohmann::json config = nlohmann::json::parse(in);
    config["sliding_window"] = 24;
    std::ofstream(*dir_ / "mistral/config.json") << config;
  }
  static void TearDownTestSuite() { delete dir_; }

  // Prompt lengths from 1 on, around block borders too.
  static TestSequence Sequence(int32_t index) {
    TestSequence sequence;
    for (int32_t i = 0; i < 1 + index * 3; ++i) {
      sequence.prompt.push_back((index * 37 + i * i * 11) % 256);
    }
    if (GetParam().sampled) {
      sequence.sampling.temperature = 0.9F;
      sequence.sampling.top_p = 0.95F;
      sequence.sampling.seed = 1000 + index;
    }
    return sequence;
  }

  static std::vector<std::vector<TokenId>> Alone(LoadedModel& model) {
    std::vector<std::vector<TokenId>> outputs;
    for (int32_t i = 0; i < kSequences; ++i) {
      RunnerDriver driver(model);
      TestSequence sequence = Sequence(i);
      driver.Generate({&sequence}, kTokens, 512);
      outputs.push_back(sequence.output);
    }
    return outputs;
  }

  static std::vector<std::vector<TokenId>> Batched(RunnerDriver& driver, int32_t chunk) {
    std::vector<TestSequence> sequences;
    std::vector<TestSequence*> pointers;
    for (int32_t i = 0; i < kSequences; ++i) sequences.push_back(Sequence(i));
    for (TestSequence& sequence : sequences) pointers.push_back(&sequence);
    driver.Generate(pointers, kTokens, chunk);
    std::vector<std::vector<TokenId>> outputs;
    for (TestSequence& sequence : sequences) outputs.push_back(sequence.output);
    return outputs;
  }

  std::unique_ptr<LoadedModel> Load(const std::string& arch) {
    return MustLoad(*dir_ / arch, GetParam().device, GetParam().dtype, 4096);
  }

  static ScratchFolder* dir_;
};
ScratchFolder* TokenIdentityTest::dir_ = nullptr;

TEST_P(TokenIdentityTest, AloneEqualsABatchOf32) {
  for (const char* arch : {"llama", "mistral", "qwen2", "qwen3"}) {
    auto model = Load(arch);
    RunnerDriver driver(*model);
    EXPECT_EQ(Alone(*model), Batched(driver, 512)) << arch;
    EXPECT_EQ(driver.largest_batch(), kSequences);
  }
}

TEST_P(TokenIdentityTest, WholePromptsEqualChunkedOnes) {
  auto model = Load("llama");
  RunnerDriver whole(*model);
  const auto expected = Batched(whole, 512);
  for (const int32_t chunk : {1, 7, 16, 33}) {
    RunnerDriver chunked(*model);
    EXPECT_EQ(expected, Batched(chunked, chunk)) << "chunks of " << chunk;
    EXPECT_GE(chunked.steps(), whole.steps() + 93 / chunk) << "chunks of " << chunk;
  }
}

TEST_P(TokenIdentityTest, RecomputedAfterPreemptionEqualsUndisturbed) {
  auto model = Load("qwen3");
  const auto expected = Alone(*model);
  for (int32_t i = 0; i < kSequences; i += 5) {
    RunnerDriver driver(*model);
    TestSequence sequence = Sequence(i);
    TestSequence other = Sequence(i + 1 < kSequences ? i + 1 : 0);
    driver.Generate({&sequence, &other}, kTokens / 2, 16);
    driver.Preempt(sequence);
    EXPECT_EQ(sequence.computed, 0);
    driver.Generate({&sequence, &other}, kTokens, 16);
    EXPECT_EQ(sequence.output, expected[i]) << "sequence " << i;
  }
}

TEST_P(TokenIdentityTest, HoldsWithKvOfTheOtherDtypeToo) {
  const std::string other = GetParam().dtype == "float32" ? "bfloat16" : "float32";
  auto model = MustLoad(*dir_ / "qwen2", GetParam().device, GetParam().dtype, 4096, other);
  ASSERT_NE(model->kv().layout.dtype, model->backend->info().compute_dtype);
  RunnerDriver driver(*model);
  EXPECT_EQ(Alone(*model), Batched(driver, 9));
}

// What travels beside the tokens is bitwise equal as well.
TEST_P(TokenIdentityTest, SignalsOfABatchEqualThoseOfOneAlone) {
  auto model = Load("llama");
  RunnerDriver alone(*model);
  TestSequence single = Sequence(9);
  const TokenId eos[] = {257};
  single.sampling.eos_ids = eos;
  single.sampling.stop_ids = eos;
  TestSequence batched = single;
  alone.Generate({&single}, kTokens, 512);

  RunnerDriver driver(*model);
  TestSequence others[3] = {Sequence(3), Sequence(17), Sequence(30)};
  driver.Generate({&others[0], &batched, &others[1], &others[2]}, kTokens, 11);
  ASSERT_EQ(single.output, batched.output);
  for (int32_t i = 0; i < kTokens; ++i) {
    EXPECT_EQ(single.samples[i].logprob, batched.samples[i].logprob) << i;
    EXPECT_EQ(single.samples[i].eos.eos_logprob, batched.samples[i].eos.eos_logprob) << i;
    EXPECT_EQ(single.samples[i].eos.entropy, batched.samples[i].eos.entropy) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, TokenIdentityTest, testing::ValuesIn(AllCases()),
                         [](const auto& test) {
                           return DeviceName(test.param.device) + "_" + test.param.dtype +
                                  (test.param.sampled ? "_sampled" : "_greedy");
                         });

}  // namespace
}  // namespace baton::test
