#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/load_model.h"
#include "common/model/random/random_model.h"

namespace baton::test {

// A backend to run a test on.
struct Device {
  std::string device;
  std::string isa;
};
// Both vector paths of the CPU: the best of this machine, and (without a sanitizer) AVX2.
std::vector<Device> CpuDevices();
// The scalar oracle as well.
std::vector<Device> AllDevices();
// "reference", "cpu_auto", "cpu_avx2": a test's suffix.
std::string DeviceName(const Device& device);

// Loads with 8192 tokens of KV cache, steps of up to `max_tokens` tokens and 64 samples, and two
// threads. A dtype is a name as in config.json, or "auto".
absl::StatusOr<std::unique_ptr<LoadedModel>> TryLoad(
    const std::string& dir, const Device& device, const std::string& dtype,
    int32_t max_tokens = 512, const std::string& kv_dtype = "auto",
    const std::optional<EosProbe>& probe = std::nullopt, int64_t swap_bytes = 0);

// The same, for tests that have nothing to do where it fails: it ends the program, and with it the
// results of all its tests. So tests of what a machine may lack use TryLoad.
std::unique_ptr<LoadedModel> MustLoad(const std::string& dir, const Device& device,
                                      const std::string& dtype, int32_t max_tokens = 512,
                                      const std::string& kv_dtype = "auto",
                                      const std::optional<EosProbe>& probe = std::nullopt,
                                      int64_t swap_bytes = 0);

// Loads on `ranks` ranks of two threads together, with the sizes of MustLoad and a folder for
// packed weights; "" is none.
absl::StatusOr<std::unique_ptr<LoadedModel>> LoadOnRanks(const std::string& dir,
                                                         const Device& device, kernels::DType dtype,
                                                         int32_t ranks, const std::string& cache);

// Directions that pick elements of the state, the first ones of it.
EosProbe ElementsOfState(int32_t hidden, std::optional<int32_t> layer);

// One request as an engine would drive it: fed in chunks, then token by token.
struct TestSequence {
  std::vector<TokenId> prompt;
  kernels::SampleRow sampling;  // spans are filled in by the driver
  int32_t no_repeat_ngram_size = 0;
  std::vector<TokenId> output;
  std::vector<SampledToken> samples;
  int32_t computed = 0;  // leading tokens whose KV stands in the cache
  std::vector<BlockId> blocks;
};

// Drives sequences through a model's runner, without a scheduler. Block tables are scattered over
// the arena.
class RunnerDriver final {
 public:
  explicit RunnerDriver(LoadedModel& model);

  // One step: each sequence feeds up to `chunk` of the tokens it has not computed yet, and samples
  // when that were all.
  void Step(const std::vector<TestSequence*>& sequences, int32_t chunk);
  // Steps until each sequence has `count` output tokens.
  void Generate(const std::vector<TestSequence*>& sequences, int32_t count, int32_t chunk);
  // Gives its blocks back: the next step computes it again from its first token.
  void Preempt(TestSequence& sequence);
  // One token per step and sequence, `steps` times, with two steps out: each feeds what the one
  // before draws, which the host has not seen. On runners that take two. Every sequence has an
  // output token that is not computed yet.
  void DecodeAhead(const std::vector<TestSequence*>& sequences, int32_t steps);

  int32_t largest_batch() const { return largest_batch_; }
  int32_t steps() const { return steps_; }

 private:
  // Blocks for `tokens` tokens.
  void Reserve(TestSequence& sequence, int32_t tokens);
  StepPlan PlanAhead(const std::vector<TestSequence*>& sequences, bool pending);

  LoadedModel& model_;
  std::vector<BlockId> free_;
  int32_t largest_batch_ = 0;
  int32_t steps_ = 0;
};

// The share of tokens before the first that differs, over all answers of two models to the same
// prompts. Products by integers round their inputs, which makes a last bit a step of a code: models
// whose sums are rounded otherwise, as on several ranks, fall apart at near-ties.
double SharedBegin(const std::vector<std::vector<TokenId>>& a,
                   const std::vector<std::vector<TokenId>>& b);

}  // namespace baton::test
