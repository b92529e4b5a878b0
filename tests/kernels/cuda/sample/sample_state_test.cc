// State of the sampling kernels between steps, and what the host's half refuses.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace baton::kernels::cuda
