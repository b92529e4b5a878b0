#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/eos_signal.h"
#include "kernels/cuda/cta/sample_data.h"
#include "kernels/cuda/device/runtime.h"
#include "kernels/cuda/sample/sample_packer.h"
#include "kernels/sampling.h"
#include "kernels/tensor_view.h"

namespace baton::kernels::cuda {

// Sampling on one device: the buffers, and for every slot its last token and penalty counts. Create
// allocates all memory. One thread uses it; the order of calls for a step is
//
//   Stage(rows)     host work and the copy of the rows' parameters, before or after the forward
//   Launch(logits)  kernels only: may be captured in a graph
//   Finish(logits)  rows that did not fit the first launch, the copy of the results
//   Collect(…)      waits for them
//
// A second step may be staged and finished before the first is collected. The rows of a step must
// stay valid until Finish.
class CudaSampler final {
 public:
  // RESOURCE_EXHAUSTED says how much memory was needed. Work is queued on `stream`, which must
  // outlive the sampler.
  static absl::StatusOr<std::unique_ptr<CudaSampler>> Create(const SamplerLimits& limits,
                                                             StreamHandle stream);
  ~CudaSampler();

  absl::Status Stage(std::span<const SampleRow> rows);
  // Draws from logits fp32 [rows, vocab]; rows beyond those that were staged are padding.
  absl::Status Launch(Matrix logits);
  absl::Status Finish(Matrix logits);
  // Waits for the results of the oldest finished step.
  absl::Status Collect(std::span<SampledToken> results);

  // Device memory [slots]: the last token that each slot drew.
  const int32_t* last_tokens() const;
  int32_t slots() const { return limits_.slots; }

 private:
  struct DeviceBuffers;
  // Pinned memory of one step, used by every second one.
  struct Step {
    std::unique_ptr<PinnedMemory> inputs;   // params, resets, lists: as on the device
    std::unique_ptr<PinnedMemory> results;  // results, top logprobs
    std::unique_ptr<Event> inputs_read;
    std::unique_ptr<Event> results_written;
    std::vector<SamplePacker::Drawing> drawings;
    int32_t rows = 0;
  };

  CudaSampler(const SamplerLimits& limits, StreamHandle stream);
  absl::Status Allocate();
  absl::Status StageFrom(Step& step, int32_t first);
  SampleLaunch LaunchFor(Matrix logits) const;
  Step& staging() { return steps_[staged_ % steps_.size()]; }

  const SamplerLimits limits_;
  const StreamHandle stream_;
  SamplePacker packer_;
  std::unique_ptr<DeviceBuffers> device_;
  std::array<Step, 2> steps_;
  uint64_t staged_ = 0;     // steps finished; also the number of the one being staged
  uint64_t collected_ = 0;  // steps
  std::span<const SampleRow> rows_;
  int32_t packed_ = 0;  // rows of the step that were launched or are staged for it
};

}  // namespace baton::kernels::cuda
