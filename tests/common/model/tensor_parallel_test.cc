// One model on one, two and four ranks: the same tokens, near logits, and ranks that agree to the
// bit.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "common/base/check.h"
#include "common/kv/block_layout.h"
#include "common/model/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/kv_row.h"
#include "tests/common/model/golden_model.h"
#include "tests/common/model/model_harness.h"
#include "tests/fakes/scratch_folder.h"

namespace baton::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int32_t kTokens = 24;

absl::StatusOr<std::unique_ptr<LoadedModel>> TryLoad(const std::string& dir, const Device& device,
                                                     int32_t ranks,
                                                     std::optional<kernels::DType> kv_dtype = {}) {
  ModelOptions options;
  options.device = *kernels::ParseDevice(device.device);
  options.isa = device.isa;
  options.dtype = kernels::DType::kF32;
  options.kv_dtype = kv_dtype;
  options.threads = 2;
  options.tensor_parallel_size = ranks;
  options.kv.tokens = 1024;
  options.limits = {.max_tokens = 64, .max_samples = 8};
  return LoadModel(dir, options, nullptr);
}

std::unique_ptr<LoadedModel> MustLoadRanks(const std::string& dir, const Device& device,
                                           int32_t ranks,
                                           std::optional<kernels::DType> kv_dtype = {}) {
  auto model = TryLoad(dir, device, ranks, kv_dtype);
  BATON_CHECK(model.ok()) << dir << " on " << ranks << " ranks: " << model.status().ToString();
  return *std::move(model);
}

bool Fits(const ModelConfig& config, int32_t ranks) {
  return LocalShape::Of(config, 0, ranks).ok();
}

// Greedy, in chunks, with the log-probabilities of the whole vocabulary at every step.
TestSequence Generate(LoadedModel& model, const std::vector<TokenId>& prompt) {
  TestSequence sequence{.prompt = prompt};
  sequence.sampling.num_top_logprobs = model.config.vocab;
  RunnerDriver driver(model);
  driver.Generate({&sequence}, kTokens, 13);
  return sequence;
}

double LargestDifference(const SampledToken& a, const SampledToken& b) {
  std::map<TokenId, float> expected;
  for (const auto& entry : b.top_logprobs) expected[entry.token] = entry.logprob;
  double difference = 0;
  for (const auto& entry : a.top_logprobs) {
    difference = std::max<double>(difference, std::abs(entry.logprob - expected.at(entry.token)));
  }
  return difference;
}

void ExpectSame(const TestSequence& actual, const TestSequence& expected) {
  EXPECT_EQ(actual.output, expected.output);
  for (size_t i = 0; i < actual.samples.size(); ++i) {
    ASSERT_EQ(actual.samples[i].top_logprobs.size(), expected.samples[i].top_logprobs.size());
    EXPECT_LT(LargestDifference(actual.samples[i], expected.samples[i]), 1e-3) << "token " << i;
  }
}

class TensorParallelGoldenTest : public testing::TestWithParam<std::tuple<std::string, Device>> {};

TEST_P(TensorParallelGoldenTest, GreedyTokensDoNotDependOnTheRanks) {
  const GoldenModel golden = LoadGoldenModel(std::get<0>(GetParam()));
  const Device device = std::get<1>(GetParam());
  auto alone = MustLoadRanks(golden.dir, device, 1);
  const TestSequence expected = Generate(*alone, golden.prompt);
  for (const int32_t ranks : {2, 4}) {
    if (!Fits(alone->config, ranks)) continue;
    SCOPED_TRACE(ranks);
    auto model = MustLoadRanks(golden.dir, device, ranks);
    EXPECT_EQ(model->ranks(), ranks);
    EXPECT_EQ(model->fingerprint, alone->fingerprint);
    const TestSequence sequence = Generate(*model, golden.prompt);
    ExpectSame(sequence, expected);
    const size_t known = std::min<size_t>(golden.greedy.size(), kTokens);
    EXPECT_TRUE(
        std::equal(golden.greedy.begin(), golden.greedy.begin() + known, sequence.output.begin()));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TensorParallelGoldenTest,
                         testing::Combine(testing::ValuesIn(GoldenModelNames()),
                                          testing::ValuesIn(AllDevices())),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" +
                                  DeviceName(std::get<1>(test.param));
                         });

class TensorParallelTest : public testing::Test {
 protected:
  std::string Make(const RandomModelSpec& spec) {
    const std::string dir = dir_ / ("m" + std::to_string(made_++));
    const absl::Status written = WriteRandomModel(spec, dir);
    BATON_CHECK(written.ok()) << written.ToString();
    return dir;
  }
  static std::vector<TokenId> Prompt() {
    std::vector<TokenId> prompt;
    for (int32_t i = 0; i < 37; ++i) prompt.push_back((i * 29 + 11) % 256);
    return prompt;
  }

  ScratchFolder dir_;
  int made_ = 0;
};

// Biases of every kind, tied and apart embeddings, divided and copied KV heads.
TEST_F(TensorParallelTest, EveryFamilyOnOneTwoAndFourRanks) {
  for (const char* arch : {"llama", "mistral", "qwen2", "qwen3"}) {
    for (const int32_t kv_heads : {1, 2, 8}) {
      const std::string dir = Make({.arch = arch,
                                    .heads = 8,
                                    .kv_heads = kv_heads,
                                    .dtype = "float32",
                                    .seed = static_cast<uint64_t>(kv_heads),
                                    .tied_embeddings = kv_heads == 2});
      auto alone = MustLoadRanks(dir, {"cpu", "auto"}, 1);
      const TestSequence expected = Generate(*alone, Prompt());
      for (const int32_t ranks : {2, 4}) {
        SCOPED_TRACE(std::string(arch) + " kv_heads " + std::to_string(kv_heads) + " ranks " +
                     std::to_string(ranks));
        auto model = MustLoadRanks(dir, {"cpu", "auto"}, ranks);
        ExpectSame(Generate(*model, Prompt()), expected);
      }
    }
  }
}

// K and V of every layer hang on the residual stream before it. Ranks with copies of one KV head
// must therefore hold the same bytes.
TEST_F(TensorParallelTest, RanksAgreeToTheBit) {
  for (const Device& device : AllDevices()) {
    const std::string dir = Make({.layers = 3, .heads = 8, .kv_heads = 1, .dtype = "bfloat16"});
    auto model = MustLoadRanks(dir, device, 4);
    Generate(*model, Prompt());
    const KvCache cache = model->kv_cache();
    const size_t bytes = cache.layout().block_bytes() * cache.num_blocks();
    ASSERT_EQ(cache.ranks(), 4u);
    EXPECT_FALSE(std::all_of(cache.rank(0).arena, cache.rank(0).arena + bytes,
                             [](std::byte byte) { return byte == std::byte{0}; }));
    for (size_t rank = 1; rank < 4; ++rank) {
      EXPECT_EQ(std::memcmp(cache.rank(0).arena, cache.rank(rank).arena, bytes), 0)
          << DeviceName(device) << " rank " << rank;
    }
  }
}

TEST_F(TensorParallelTest, ARowGetsTheSameBitsAloneBatchedAndChunked) {
  const std::string dir = Make({.heads = 8, .kv_heads = 2, .dtype = "bfloat16"});
  for (const Device& device : CpuDevices()) {
    auto model = MustLoadRanks(dir, device, 2);
    std::vector<TestSequence> alone(3), batched(3);
    RunnerDriver one(*model), many(*model);
    std::vector<TestSequence*> together;
    for (size_t i = 0; i < alone.size(); ++i) {
      alone[i].prompt = Prompt();
      alone[i].prompt.resize(11 + 12 * i);
      alone[i].sampling.temperature = 0.8F;
      alone[i].sampling.seed = 5 + i;
      batched[i] = alone[i];
      one.Generate({&alone[i]}, kTokens, 64);
      together.push_back(&batched[i]);
    }
    many.Generate(together, kTokens, 4);
    EXPECT_EQ(many.largest_batch(), 3);
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(batched[i].output, alone[i].output) << DeviceName(device) << " sequence " << i;
      for (size_t token = 0; token < alone[i].samples.size(); ++token) {
        EXPECT_EQ(batched[i].samples[token].logprob, alone[i].samples[token].logprob);
      }
    }
  }
}

// The heads of all ranks, joined, are the block that one rank would have computed.
TEST_F(TensorParallelTest, JoinedBlocksAreThoseOfOneRank) {
  const std::string dir = Make({.heads = 8, .kv_heads = 4, .dtype = "float32"});
  auto alone = MustLoadRanks(dir, {"cpu", "auto"}, 1);
  const TestSequence expected = Generate(*alone, Prompt());
  KvShape whole{.dtype = "float32", .block_size = 16, .layers = 2, .kv_heads = 4, .head_dim = 16};
  for (const int32_t ranks : {2, 4}) {
    auto model = MustLoadRanks(dir, {"cpu", "auto"}, ranks);
    const TestSequence sequence = Generate(*model, Prompt());
    KvShape divided = whole;
    divided.tensor_parallel = ranks;
    const KvCache cache = model->kv_cache();
    for (size_t i = 0; i < sequence.blocks.size(); ++i) {
      ByteParts parts = {cache.bytes(sequence.blocks[i])};
      for (const auto& part : cache.peer_bytes(sequence.blocks[i])) parts.push_back(part);
      std::vector<float> joined(alone->kv().layout.block_elements());
      CopyParts(InOrderOf(whole, divided, parts), {std::as_writable_bytes(std::span(joined))});
      const auto* one =
          reinterpret_cast<const float*>(alone->kv().block(expected.blocks[i].value()));
      for (size_t e = 0; e < joined.size(); ++e) ASSERT_NEAR(joined[e], one[e], 1e-3) << i;
    }
  }
}

// The scales of int8 travel with their rows: block by block, each rank has the bytes of its heads.
TEST_F(TensorParallelTest, RowsOfCodesAreJoinedWithTheirScales) {
  const std::string dir = Make({.heads = 8, .kv_heads = 4, .dtype = "float32"});
  auto alone = MustLoadRanks(dir, {"cpu", "auto"}, 1, kernels::DType::kInt8);
  auto model = MustLoadRanks(dir, {"cpu", "auto"}, 2, kernels::DType::kInt8);
  const TestSequence expected = Generate(*alone, Prompt());
  const TestSequence sequence = Generate(*model, Prompt());
  const kernels::PagedKv kv = alone->kv();
  KvShape whole{.dtype = "int8", .block_size = 16, .layers = 2, .kv_heads = 4, .head_dim = 16};
  KvShape divided = whole;
  divided.tensor_parallel = 2;
  const KvCache cache = model->kv_cache();
  std::vector<std::byte> joined(kv.layout.block_bytes());
  ByteParts parts = {cache.bytes(sequence.blocks[0])};
  for (const auto& part : cache.peer_bytes(sequence.blocks[0])) parts.push_back(part);
  CopyParts(InOrderOf(whole, divided, parts), {std::span(joined)});
  std::vector<float> row(16), want(16);
  for (int token = 0; token < 13; ++token) {  // of the prompt's first chunk
    for (int head = 0; head < 4; ++head) {
      for (int plane = 0; plane < 2; ++plane) {
        const size_t at = kv.offset(1, plane, head, token);
        kernels::LoadKvRow(kernels::DType::kInt8, joined.data() + at, row);
        kernels::LoadKvRow(kernels::DType::kInt8, kv.block(expected.blocks[0].value()) + at, want);
        float largest = 0;
        for (const float x : want) largest = std::max(largest, std::abs(x));
        for (int d = 0; d < 16; ++d) ASSERT_NEAR(row[d], want[d], 2.01 * largest / 127) << head;
      }
    }
  }
}

TEST_F(TensorParallelTest, ThreadsAndTheKvBudgetAreOfAllRanksTogether) {
  const std::string dir = Make({.heads = 8, .kv_heads = 4, .dtype = "float32"});
  ModelOptions options;
  options.threads = 2;
  options.kv.memory_bytes = 1 << 20;
  auto alone = LoadModel(dir, options, nullptr);
  ASSERT_TRUE(alone.ok()) << alone.status();
  options.tensor_parallel_size = 2;
  int64_t last = 0;
  auto model = LoadModel(dir, options, [&](int64_t done, int64_t total) {
    EXPECT_LE(last, done);
    EXPECT_LE(done, total);
    last = done;
  });
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_GT(last, 0);
  EXPECT_EQ((*model)->kv().num_blocks, (*alone)->kv().num_blocks);
  EXPECT_EQ((*model)->kv().layout.kv_heads, 2);
  EXPECT_EQ((*model)->threads(), 2);
  EXPECT_NE((*model)->backend->info().numerics(), (*alone)->backend->info().numerics());
}

TEST_F(TensorParallelTest, SaysWhichSizesFitWhenHeadsDoNotDivide) {
  const std::string dir = Make({.heads = 8, .kv_heads = 4, .ffn = 128, .dtype = "float32"});
  for (const int32_t ranks : {3, 16}) {
    const auto model = TryLoad(dir, {"cpu", "auto"}, ranks);
    EXPECT_EQ(model.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(model.status().message()),
                AllOf(HasSubstr("8 query heads"), HasSubstr("4 KV heads"), HasSubstr("MLP of 128"),
                      HasSubstr(std::to_string(ranks) + " ranks"),
                      HasSubstr("--tensor-parallel-size 1, 2, 4, 8")));
  }
  EXPECT_EQ(TryLoad(dir, {"cpu", "auto"}, 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TryLoad(dir, {"cpu", "auto"}, 65).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::test
