#include "kernels/cuda/sample/sampler.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "kernels/cuda/cta/sample_results.h"
#include "kernels/cuda/sample/sampling.h"

namespace baton::kernels::cuda {
namespace {

constexpr size_t kAlignment = 256;

constexpr size_t Aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

template <typename T>
T* At(const Buffer& buffer, size_t offset) {
  return reinterpret_cast<T*>(static_cast<std::byte*>(buffer.data()) + offset);
}

// Where params, resets and lists of a step lie in one piece of memory. Lists come last, so that
// only those in use are copied.
struct InputOffsets {
  explicit InputOffsets(const SamplerLimits& limits)
      : resets(Aligned(sizeof(SampleParams) * static_cast<size_t>(limits.rows))),
        lists(resets + Aligned(sizeof(CountsReset) * static_cast<size_t>(limits.rows))),
        size(lists + sizeof(int32_t) * static_cast<size_t>(limits.list_capacity)) {}
  size_t resets;
  size_t lists;
  size_t size;
};

struct ResultOffsets {
  explicit ResultOffsets(const SamplerLimits& limits)
      : top_logprobs(Aligned(sizeof(SampleResult) * static_cast<size_t>(limits.rows))),
        size(top_logprobs + sizeof(SampleTopLogprob) * static_cast<size_t>(limits.rows) *
                                static_cast<size_t>(limits.max_top_logprobs)) {}
  size_t top_logprobs;
  size_t size;
};

// The size in bytes of each buffer on the device.
struct DeviceSizes {
  explicit DeviceSizes(const SamplerLimits& limits)
      : inputs(InputOffsets(limits).size), results(ResultOffsets(limits).size) {
    const auto rows = static_cast<size_t>(limits.rows);
    const auto vocab = static_cast<size_t>(limits.vocab);
    counts = sizeof(uint32_t) * vocab * static_cast<size_t>(limits.entries());
    processed = sizeof(float) * vocab * rows;
    partials = sizeof(TilePartial) * static_cast<size_t>(NumTiles(limits.vocab)) * rows;
    last_tokens = sizeof(int32_t) * static_cast<size_t>(std::max(limits.slots, 1));
  }
  size_t inputs;
  size_t results;
  size_t counts;
  size_t processed;
  size_t partials;
  size_t last_tokens;
};

}  // namespace

struct CudaSampler::DeviceBuffers {
  std::unique_ptr<DeviceMemory> inputs;
  std::unique_ptr<DeviceMemory> results;
  std::unique_ptr<DeviceMemory> counts;
  std::unique_ptr<DeviceMemory> processed;
  std::unique_ptr<DeviceMemory> partials;
  std::unique_ptr<DeviceMemory> last_tokens;
};

CudaSampler::CudaSampler(const SamplerLimits& limits, StreamHandle stream)
    : limits_(limits),
      stream_(stream),
      packer_(limits),
      device_(std::make_unique<DeviceBuffers>()) {}

CudaSampler::~CudaSampler() = default;

absl::StatusOr<std::unique_ptr<CudaSampler>> CudaSampler::Create(const SamplerLimits& limits,
                                                                 StreamHandle stream) {
  BATON_RETURN_IF_ERROR(limits.Check());
  std::unique_ptr<CudaSampler> sampler(new CudaSampler(limits, stream));
  BATON_RETURN_IF_ERROR(sampler->Allocate());
  return sampler;
}

absl::Status CudaSampler::Allocate() {
  const DeviceSizes sizes(limits_);
  const auto allocate = [&](size_t bytes, std::unique_ptr<DeviceMemory>* into) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(*into, DeviceMemory::Allocate(bytes, "--max-num-seqs"));
    return absl::OkStatus();
  };
  BATON_RETURN_IF_ERROR(allocate(sizes.inputs, &device_->inputs));
  BATON_RETURN_IF_ERROR(allocate(sizes.results, &device_->results));
  BATON_RETURN_IF_ERROR(allocate(sizes.counts, &device_->counts));
  BATON_RETURN_IF_ERROR(allocate(sizes.processed, &device_->processed));
  BATON_RETURN_IF_ERROR(allocate(sizes.partials, &device_->partials));
  BATON_RETURN_IF_ERROR(allocate(sizes.last_tokens, &device_->last_tokens));
  // Slots that have drawn nothing yet must hold ids, too.
  BATON_RETURN_IF_ERROR(Fill(device_->last_tokens->data(), 0, sizes.last_tokens, stream_));
  for (Step& step : steps_) {
    BATON_ASSIGN_OR_RETURN(step.inputs, PinnedMemory::Allocate(sizes.inputs));
    BATON_ASSIGN_OR_RETURN(step.results, PinnedMemory::Allocate(sizes.results));
    BATON_ASSIGN_OR_RETURN(Event read, Event::Create());
    BATON_ASSIGN_OR_RETURN(Event written, Event::Create());
    step.inputs_read = std::make_unique<Event>(std::move(read));
    step.results_written = std::make_unique<Event>(std::move(written));
    step.drawings.resize(static_cast<size_t>(limits_.rows));
  }
  return absl::OkStatus();
}

const int32_t* CudaSampler::last_tokens() const {
  return At<const int32_t>(*device_->last_tokens, 0);
}

SampleLaunch CudaSampler::LaunchFor(Matrix logits) const {
  BATON_CHECK(logits.dtype == DType::kF32 && logits.cols == limits_.vocab &&
              logits.rows <= limits_.rows)
      << logits.rows << " rows of " << logits.cols << " logits; expected at most " << limits_.rows
      << " fp32 rows of " << limits_.vocab;
  const InputOffsets inputs(limits_);
  const ResultOffsets results(limits_);
  return {.logits = static_cast<const float*>(logits.data),
          .stride = logits.stride,
          .rows = static_cast<int32_t>(logits.rows),
          .vocab = limits_.vocab,
          .params = At<const SampleParams>(*device_->inputs, 0),
          .lists = At<const int32_t>(*device_->inputs, inputs.lists),
          .counts = At<uint32_t>(*device_->counts, 0),
          .last_tokens = At<int32_t>(*device_->last_tokens, 0),
          .processed = At<float>(*device_->processed, 0),
          .partials = At<TilePartial>(*device_->partials, 0),
          .results = At<SampleResult>(*device_->results, 0),
          .top_logprobs = At<SampleTopLogprob>(*device_->results, results.top_logprobs),
          .max_top_logprobs = limits_.max_top_logprobs};
}

absl::Status CudaSampler::Stage(std::span<const SampleRow> rows) {
  BATON_CHECK(staged_ - collected_ < steps_.size()) << "two steps wait to be collected";
  BATON_CHECK(static_cast<int64_t>(rows.size()) <= limits_.rows)
      << rows.size() << " rows for " << limits_.rows;
  rows_ = rows;
  packed_ = 0;
  staging().rows = static_cast<int32_t>(rows.size());
  return StageFrom(staging(), 0);
}

// Packs the rows from `first` on that fit, and queues their copy and their counts.
absl::Status CudaSampler::StageFrom(Step& step, int32_t first) {
  BATON_RETURN_IF_ERROR(step.inputs_read->Synchronize());
  const InputOffsets offsets(limits_);
  const std::span<SampleParams> params(At<SampleParams>(*step.inputs, 0),
                                       static_cast<size_t>(limits_.rows));
  const std::span<int32_t> lists(At<int32_t>(*step.inputs, offsets.lists),
                                 static_cast<size_t>(limits_.list_capacity));
  BATON_ASSIGN_OR_RETURN(const SamplePacker::Packed packed,
                         packer_.Pack(rows_, first, params, lists, step.drawings));
  std::copy(packed.resets.begin(), packed.resets.end(),
            At<CountsReset>(*step.inputs, offsets.resets));
  packed_ = packed.end;
  const size_t bytes = offsets.lists + sizeof(int32_t) * static_cast<size_t>(packed.list_size);
  BATON_RETURN_IF_ERROR(CopyToDevice(device_->inputs->data(), step.inputs->data(), bytes, stream_));
  BATON_RETURN_IF_ERROR(step.inputs_read->Record(stream_));
  const Matrix none = Matrix::Dense(nullptr, DType::kF32, 0, limits_.vocab);
  const int error =
      LaunchResetCounts(At<const CountsReset>(*device_->inputs, offsets.resets),
                        static_cast<int32_t>(packed.resets.size()), LaunchFor(none), stream_);
  return error == 0 ? absl::OkStatus() : ToStatus(error, "counting the ids of histories");
}

absl::Status CudaSampler::Launch(Matrix logits) {
  const int error = LaunchSample(LaunchFor(logits), stream_);
  return error == 0 ? absl::OkStatus() : ToStatus(error, "sampling");
}

absl::Status CudaSampler::Finish(Matrix logits) {
  Step& step = staging();
  while (packed_ < step.rows) {
    BATON_RETURN_IF_ERROR(StageFrom(step, packed_));
    BATON_RETURN_IF_ERROR(Launch(logits));
  }
  rows_ = {};
  const ResultOffsets offsets(limits_);
  BATON_RETURN_IF_ERROR(
      CopyToHost(step.results->data(), device_->results->data(), offsets.size, stream_));
  BATON_RETURN_IF_ERROR(step.results_written->Record(stream_));
  ++staged_;
  return absl::OkStatus();
}

absl::Status CudaSampler::Collect(std::span<SampledToken> results) {
  BATON_CHECK(collected_ < staged_) << "no step was finished";
  Step& step = steps_[collected_ % steps_.size()];
  BATON_CHECK(static_cast<int64_t>(results.size()) == step.rows)
      << results.size() << " results of " << step.rows << " rows";
  BATON_RETURN_IF_ERROR(step.results_written->Synchronize());
  ++collected_;
  const ResultOffsets offsets(limits_);
  const auto* from = At<const SampleResult>(*step.results, 0);
  const auto* top = At<const SampleTopLogprob>(*step.results, offsets.top_logprobs);
  for (int32_t row = 0; row < step.rows; ++row) {
    SampledToken& token = results[static_cast<size_t>(row)];
    FillSampledToken(from[row], top + int64_t{row} * limits_.max_top_logprobs, &token);
    packer_.Seen(step.drawings[static_cast<size_t>(row)], token.token);
  }
  return absl::OkStatus();
}

}  // namespace baton::kernels::cuda
