// State of the sampling kernels between steps, and what the host's half refuses.
#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

#include "kernels/gpu_needs.h"
#include "tests/kernels/cuda/sample/emulated_sampler.h"
#include "tests/kernels/cuda/sample/sample_state_suite.h"

namespace baton::kernels::cuda {

INSTANTIATE_TYPED_TEST_SUITE_P(Emulated, SampleStateSuite, EmulatedSampler);

namespace {

TEST(SamplePackerTest, RefusesWhatNoKernelCanSample) {
  const SamplerLimits limits{.vocab = 10, .rows = 2, .slots = 1, .list_capacity = 8};
  SamplePacker packer(limits);
  std::vector<SampleParams> params(2);
  std::vector<int32_t> lists(8);
  std::vector<SamplePacker::Drawing> drawings(2);
  const auto code = [&](const SampleRow& row) {
    return packer.Pack({&row, 1}, 0, params, lists, drawings).status().code();
  };
  const std::vector<int32_t> history(9, 1);
  EXPECT_EQ(code({}), absl::StatusCode::kOk);
  EXPECT_EQ(code({.slot = 1}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.num_top_logprobs = 21}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.pending_output = true}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.repetition_penalty = 2, .prompt = history}),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code({.repetition_penalty = 2, .prompt = std::span(history).first(8)}),
            absl::StatusCode::kOk);
  EXPECT_FALSE((SamplerLimits{.vocab = 0, .rows = 1}).Check().ok());
  EXPECT_FALSE((SamplerLimits{.vocab = 9, .rows = 2, .count_entries = 1}).Check().ok());
  EXPECT_FALSE((SamplerLimits{.vocab = kMaxVocab + 1, .rows = 1}).Check().ok());
}

// A row of a sequence as long as the context, with every list that a request can bring in full.
TEST(SamplePackerTest, TheLongestRowFitsTheListOfItsContext) {
  constexpr int32_t kVocab = 64;
  constexpr int32_t kContext = 1 << 20;
  const SamplerLimits limits{
      .vocab = kVocab, .rows = 1, .list_capacity = SamplerListNumbers(kVocab, kContext)};
  SamplePacker packer(limits);
  std::vector<SampleParams> params(1);
  std::vector<int32_t> lists(static_cast<size_t>(limits.list_capacity));
  std::vector<SamplePacker::Drawing> drawings(1);
  const std::vector<int32_t> history(kContext, 1);
  std::vector<int32_t> all(kVocab);
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::pair<int32_t, float>> biases;
  for (const int32_t id : all) biases.emplace_back(id, 1.0F);
  const std::vector<uint32_t> allowed(kVocab / 32, ~0U);
  const SampleRow row = {.repetition_penalty = 2,
                         .logit_bias = biases,
                         .eos_bias = 1,
                         .banned_ids = all,
                         .allowed = allowed,
                         .prompt = std::span(history).first(1000),
                         .output = std::span(history).subspan(1000),
                         .eos_ids = all,
                         .stop_ids = all,
                         .mask_stop_ids = true};
  const auto packed = packer.Pack({&row, 1}, 0, params, lists, drawings);
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(packed->list_size, kContext + 8 * kVocab + kVocab / 32) << "each list was in full";
}

}  // namespace
}  // namespace baton::kernels::cuda
