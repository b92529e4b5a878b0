#pragma once

#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/formats/eos_probe_file.h"
#include "tests/common/engine/harness.h"
#include "tests/common/model/model_harness.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {

inline constexpr int32_t kRequests = 32;
inline constexpr int32_t kMaxTokens = 24;
inline constexpr int32_t kHidden = 64;
inline constexpr int64_t kSwapBytes = int64_t{4} << 20;

struct Case {
  test::Device device;
  std::string dtype;
  std::string kv_dtype = "auto";
};

inline std::string CaseName(const testing::TestParamInfo<Case>& test) {
  const Case& param = test.param;
  return test::DeviceName(param.device) + "_" + param.dtype +
         (param.kv_dtype == "auto" ? "" : "_" + param.kv_dtype);
}

inline std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const test::Device& device : test::CpuDevices()) {
    for (const char* dtype : {"float32", "bfloat16"}) cases.push_back({device, dtype});
  }
  return cases;
}

// Two of them with a KV cache of codes, which heads of the other cases do not fit.
inline std::vector<Case> QuantizedKvCases(const std::string& kv_dtype) {
  std::vector<Case> cases;
  for (const test::Device& device : test::CpuDevices()) {
    cases.push_back({device, device.isa == "avx2" ? "float32" : "bfloat16", kv_dtype});
  }
  return cases;
}

// Products that every test here compares as well: of a middle layer with one dtype, of the normed
// state with the other.
inline EosProbe ProbeOf(const std::string& dtype, int32_t hidden) {
  const auto layer = dtype == "float32" ? std::optional<int32_t>(0) : std::nullopt;
  return MakeRandomEosProbe(hidden, 64, layer, 9).value();
}

// Lends a model's runner to one engine after the other. With a latch the first step waits for it.
class BorrowedRunner final : public ModelRunner {
 public:
  explicit BorrowedRunner(ModelRunner* runner, std::latch* start = nullptr)
      : runner_(runner), start_(start) {}
  absl::Status Submit(const StepPlan& plan) override {
    if (start_ != nullptr) start_->wait();
    return runner_->Submit(plan);
  }
  absl::StatusOr<StepOutput> Wait() override { return runner_->Wait(); }
  uint64_t operations_finished() const override { return runner_->operations_finished(); }
  int32_t max_in_flight() const override { return runner_->max_in_flight(); }

 private:
  ModelRunner* const runner_;
  std::latch* const start_;
};

// A mix of greedy and seeded requests with every processor, and of prompt lengths.
inline SequenceSpec Request(int32_t index) {
  SequenceSpec spec;
  for (int32_t i = 0; i < 1 + index * 3; ++i)
    spec.prompt.push_back((index * 37 + i * i * 11) % 256);
  spec.stop.max_tokens = kMaxTokens;
  spec.stop.eos_policy = index % 4 == 3 ? EosPolicy::kIgnoreMask : EosPolicy::kIgnoreContinue;
  SamplingParams& sampling = spec.sampling;
  sampling.seed = 1000 + static_cast<uint64_t>(index);
  sampling.temperature = index % 3 == 0 ? 0.0f : 0.9f;
  if (index % 4 == 1) sampling.top_p = 0.9f;
  if (index % 4 == 2) sampling.top_k = 20;
  if (index % 5 == 1) sampling.repetition_penalty = 1.2f;
  if (index % 5 == 2) sampling.frequency_penalty = 0.5f;
  if (index % 5 == 3) sampling.no_repeat_ngram_size = 3;
  sampling.num_top_logprobs = index % 3;
  return spec;
}

class ModelIdentityTest : public testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() {
    dir_ = new ScratchFolder;
    for (const auto& [name, head_dim] : {std::pair{"model", 24}, {"heads_of_32", 32}}) {
      const absl::Status written = WriteRandomModel({.arch = "llama",
                                                     .hidden = kHidden,
                                                     .head_dim = head_dim,
                                                     .dtype = "bfloat16",
                                                     .seed = 5},
                                                    *dir_ / name);
      ASSERT_TRUE(written.ok()) << written;
    }
  }
  static void TearDownTestSuite() { delete dir_; }

  void SetUp() override {
    model_ = Load();
    auto harness = Start(Options());
    for (int32_t i = 0; i < kRequests; ++i) {
      const SequenceId id = harness->Admit(Request(i));
      ASSERT_TRUE(harness->RunUntilOver(id));
      alone_.push_back(harness->seen(id));
    }
    EXPECT_EQ(harness->figures().largest_batch, 1);
  }

  static std::unique_ptr<LoadedModel> Load() {
    const bool codes = GetParam().kv_dtype != "auto";
    return test::MustLoad(*dir_ / (codes ? "heads_of_32" : "model"), GetParam().device,
                          GetParam().dtype, 512, GetParam().kv_dtype,
                          ProbeOf(GetParam().dtype, kHidden), kSwapBytes);
  }

  EngineOptions Options() const {
    EngineOptions options;
    options.max_model_len = 512;
    options.max_num_seqs = kRequests;
    options.max_prefill_tokens = 512;
    options.max_num_batched_tokens = 512;
    options.enable_prefix_caching = false;
    options.eos_ids = {257};
    options.vocab_size = model_->config.vocab;
    return options;
  }
  // Whoever is preempted is swapped.
  EngineOptions Swapping() const {
    EngineOptions options = Options();
    options.swap_blocks = model_->swap_blocks();
    return options;
  }
  // An engine over the first `num_blocks` blocks of the model's arena; 0 = all.
  std::unique_ptr<EngineHarness> Start(const EngineOptions& options, int32_t num_blocks = 0,
                                       LoadedModel* model = nullptr, std::latch* start = nullptr) {
    LoadedModel& loaded = model != nullptr ? *model : *model_;
    kernels::PagedKv kv = loaded.kv();
    if (num_blocks > 0) kv.num_blocks = num_blocks;
    return std::make_unique<EngineHarness>(
        options, kv, std::make_unique<BorrowedRunner>(loaded.runner.get(), start));
  }
  // Tokens, and all that was measured with them, bit by bit.
  static void ExpectSame(const Seen& seen, const Seen& alone, size_t first = 0) {
    ASSERT_EQ(seen.samples.size() + first, alone.samples.size());
    for (size_t i = 0; i < seen.samples.size(); ++i) {
      const SampledToken& a = seen.samples[i];
      const SampledToken& b = alone.samples[i + first];
      ASSERT_EQ(a.token, b.token) << "step " << i + first + 1;
      EXPECT_EQ(a.logprob, b.logprob);
      EXPECT_EQ(a.eos.eos_logprob, b.eos.eos_logprob);
      EXPECT_EQ(a.eos.eos_prob_sampling, b.eos.eos_prob_sampling);
      EXPECT_EQ(a.eos.eos_rank, b.eos.eos_rank);
      EXPECT_EQ(a.eos.entropy, b.eos.entropy);
      EXPECT_EQ(a.eos.top1_prob, b.eos.top1_prob);
      ASSERT_EQ(b.probe.size(), 64u);
      EXPECT_EQ(a.probe, b.probe);
      EXPECT_EQ(a.natural_end, b.natural_end);
      ASSERT_EQ(a.top_logprobs.size(), b.top_logprobs.size());
      for (size_t rank = 0; rank < a.top_logprobs.size(); ++rank) {
        EXPECT_EQ(a.top_logprobs[rank].token, b.top_logprobs[rank].token);
        EXPECT_EQ(a.top_logprobs[rank].logprob, b.top_logprobs[rank].logprob);
      }
    }
    EXPECT_EQ(seen.finished->natural_end_step, alone.finished->natural_end_step);
  }
  // The engine's first step waits for all requests where `start` is the latch it waits for.
  void ExpectAllSame(EngineHarness* harness, std::latch* start = nullptr) {
    std::vector<SequenceId> ids;
    for (int32_t i = 0; i < kRequests; ++i) ids.push_back(harness->Admit(Request(i)));
    if (start != nullptr) start->count_down();
    for (size_t i = 0; i < ids.size(); ++i) {
      ASSERT_TRUE(harness->RunUntilOver(ids[i]));
      ExpectSame(harness->seen(ids[i]), alone_[i]);
    }
  }

  static inline ScratchFolder* dir_ = nullptr;
  std::unique_ptr<LoadedModel> model_;
  std::vector<Seen> alone_;
};

}  // namespace baton
