#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/backend_factory.h"
#include "kernels/cuda/attention_plan.h"
#include "kernels/cuda/graph.h"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/sampler.h"
#include "kernels/cuda/step_inputs.h"
#include "kernels/cuda/uploader.h"

namespace baton::kernels {

// One NVIDIA GPU: cuBLASLt for the products, FlashInfer for attention where it has the shape, own
// kernels for the rest, all on one stream; a second step may begin before the first has ended. A
// pure decode step is padded to a rung of the row ladder and repeated as a CUDA graph. An error of
// a launch or of the device shows at EndStep, at the latest.
class CudaBackend final : public Backend {
 public:
  static absl::StatusOr<std::unique_ptr<Backend>> Create(const BackendOptions& options);
  ~CudaBackend() override;

  const BackendInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) override;
  absl::Status Zero(Buffer& buffer) override;
  absl::Status Upload(const void* host, size_t bytes, void* device) override;
  absl::Status Download(const void* device, size_t bytes, void* host) override;
  absl::StatusOr<std::optional<DeviceMemorySize>> DeviceMemory() const override;
  absl::StatusOr<std::unique_ptr<PackedWeight>> Pack(const HostTensor& weight,
                                                     const Shard& shard) override;
  absl::StatusOr<std::unique_ptr<Buffer>> UploadVector(const HostTensor& vector) override;
  absl::StatusOr<std::unique_ptr<Buffer>> UploadTable(const HostTensor& table) override;
  bool CanEmbedFromPacked() const override { return true; }
  absl::Status Prepare(const StepUses& uses) override;
  absl::StatusOr<StepRows> BeginStep(const StepLayout& layout, const PagedKv& kv) override;
  absl::Status RunStep(uint64_t program, absl::FunctionRef<void()> operations) override;
  void Embed(const Buffer& table, Matrix out) override;
  void EmbedFromPacked(const PackedWeight& weight, Matrix out) override;
  void GatherSampled(Matrix in, Matrix out) override;
  void RmsNorm(Matrix in, const Buffer& weight, float eps, Matrix out) override;
  void MatMul(const PackedWeight& weight, Matrix in, Matrix out,
              const MatMulEpilogue& epilogue) override;
  void RopeAndStoreKv(Matrix qkv, int layer, const AttentionShape& shape, const RopeShape& rope,
                      const QkNorm& norm) override;
  void PagedAttention(Matrix qkv, int layer, const AttentionShape& shape, Matrix out) override;
  void SiluMul(Matrix gate_up, Matrix out) override;
  void AllReduce(Matrix values) override;
  void Sample(Matrix logits, std::span<const SampleRow> rows,
              std::span<SampledToken> results) override;
  absl::Status EndStep() override;

  // Takes about 0.7 GB of device memory for the time of the call.
  absl::StatusOr<MachineLimits> MeasureLimits();

 private:
  // An AttentionShape that FlashInfer serves, as Prepare was told.
  struct FlashShape {
    AttentionShape shape;
    cuda::AttentionPlan plan;
    int64_t max_partials = 0;
  };
  // A step between BeginStep and EndStep.
  struct RunningStep {
    std::span<SampledToken> results;
    absl::Status fault;  // the first of its launches
  };

  CudaBackend(BackendInfo info, cuda::DeviceInfo device, cuda::Stream stream);
  absl::Status PrepareProducts(const StepUses& uses);
  absl::Status PrepareAttention(const StepUses& uses);
  absl::Status SetRope(std::span<const float> inv_freq);
  absl::Status PrepareSampling(int32_t vocab, int32_t rows);
  // Sizes of the step with padding; whether it is one to capture.
  cuda::StepSizes PlanStep(const StepLayout& layout, const PagedKv& kv, bool& capture);
  const FlashShape* FindFlash(const AttentionShape& shape) const;
  void RunFlash(const FlashShape& flash, const cuda::PlanInputs& inputs, Matrix qkv, int layer,
                Matrix out);
  void RunPlain(const AttentionShape& shape, Matrix qkv, int layer, Matrix out);
  // Keeps the first error of the step that began last.
  void Note(int error, std::string_view what);
  void Note(const absl::Status& status);
  absl::Status& Fault() { return steps_.empty() ? fault_ : steps_.back().fault; }
  void* Plane(int layer, int plane) const;

  BackendInfo info_;
  const cuda::DeviceInfo device_;
  const cuda::Stream stream_;
  std::unique_ptr<cuda::Uploader> uploader_;
  std::unique_ptr<cuda::MatMul> matmul_;
  std::optional<cuda::StepInputs> inputs_;
  cuda::GraphCache graphs_;

  int64_t max_capture_rows_ = 0;
  std::vector<FlashShape> flash_;
  std::unique_ptr<cuda::DeviceMemory> partial_out_;
  std::unique_ptr<cuda::DeviceMemory> partial_lse_;
  std::vector<float> inv_freq_;  // what inv_freq_device_ holds
  std::unique_ptr<cuda::DeviceMemory> inv_freq_device_;

  std::unique_ptr<cuda::CudaSampler> sampler_;
  int32_t sampler_rows_ = 0;
  int32_t sampler_vocab_ = 0;

  // Of the step that began last.
  PagedKv kv_;
  cuda::StepSizes sizes_;
  bool capture_ = false;
  std::deque<RunningStep> steps_;  // oldest first, at most kMaxRunning
  absl::Status fault_;             // of launches outside a step
};

}  // namespace baton::kernels
