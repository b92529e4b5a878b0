#pragma once

#include <memory>
#include <span>
#include <vector>

#include "common/base/eos_signal.h"
#include "kernels/cuda/cta/sample_data.h"
#include "kernels/cuda/sample/sample_packer.h"
#include "kernels/sampling.h"
#include "tests/kernels/cuda/cta/host_cta.h"

namespace baton::kernels::cuda {

// The sampling kernels with the grid as loops and host memory for the device's: what CudaSampler
// does, without a GPU.
class EmulatedSampler {
 public:
  explicit EmulatedSampler(const SamplerLimits& limits,
                           HostCta::Order order = HostCta::Order::kForward);

  // The next step is packed before the tokens of the last are on the host.
  void set_overlap(bool overlap) { overlap_ = overlap; }

  // Samples as Backend::Sample does in one step.
  std::vector<SampledToken> Sample(std::span<const float> logits, std::span<const SampleRow> rows);

  int32_t last_token(int32_t slot) const { return last_tokens_[slot]; }
  int resets() const { return resets_; }  // so far

 private:
  void SeeTokens();
  void Launch(std::span<const float> logits, int32_t rows);

  SamplerLimits limits_;
  HostCta::Order order_;
  SamplePacker packer_;
  std::vector<SampleParams> params_;
  std::vector<int32_t> lists_;
  std::vector<uint32_t> counts_;
  std::vector<int32_t> last_tokens_;
  std::vector<float> processed_;
  std::vector<TilePartial> partials_;
  std::vector<SampleResult> results_;
  std::vector<SampleTopLogprob> top_logprobs_;
  int resets_ = 0;
  bool overlap_ = false;
  std::vector<SamplePacker::Drawing> drawings_;  // not seen yet
};

}  // namespace baton::kernels::cuda
