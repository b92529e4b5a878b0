#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/backend_factory.h"
#include "kernels/cuda/attention/attention_plan.h"
#include "kernels/cuda/cta/feedback.h"
#include "kernels/cuda/device/runtime.h"
#include "kernels/cuda/gemm/device_weights.h"
#include "kernels/cuda/gemm/fp8_products.h"
#include "kernels/cuda/gemm/matmul.h"
#include "kernels/cuda/gemm/product_groups.h"
#include "kernels/cuda/gemm/quantized_products.h"
#include "kernels/cuda/graph/graph.h"
#include "kernels/cuda/graph/step_inputs.h"
#include "kernels/cuda/memory/uploader.h"
#include "kernels/cuda/sample/sampler.h"
#include "kernels/operation_check.h"

namespace baton::kernels {

// The backend of one NVIDIA GPU: cuBLASLt for the products but those of few rows by small integers,
// FlashInfer for attention where it is built for the shape, own kernels for the rest, all on one
// stream. A second step may begin before the first has ended. A step in which every sequence adds
// one token is padded to a rung of the row ladder and repeated as a CUDA graph. An error of a
// launch or of the device shows at EndStep, at the latest.
//
// It is implemented in cuda_backend.cc (steps), backend_memory.cc (buffers and weights),
// backend_prepare.cc, backend_operations.cc and backend_attention.cc.
class CudaBackend final : public Backend {
 public:
  static absl::StatusOr<std::unique_ptr<Backend>> Create(const BackendOptions& options);
  ~CudaBackend() override;

  const BackendInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) override;
  absl::StatusOr<std::unique_ptr<Buffer>> AllocateOnHost(size_t bytes) override;
  absl::Status Zero(Buffer& buffer) override;
  absl::Status Upload(const void* host, size_t bytes, void* device) override;
  absl::Status Download(const void* device, size_t bytes, void* host) override;
  absl::StatusOr<std::optional<DeviceMemorySize>> DeviceMemory() const override;
  absl::StatusOr<std::unique_ptr<PackedWeight>> Pack(const HostTensor& weight,
                                                     const Shard& shard) override;
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackQuantized(const QuantizedTensor& weight,
                                                              const Shard& shard) override;
  const PackedImages* packed_images() const override { return nullptr; }
  absl::StatusOr<std::unique_ptr<Buffer>> UploadVector(const HostTensor& vector) override;
  absl::StatusOr<std::unique_ptr<Buffer>> UploadTable(const HostTensor& table) override;
  bool CanEmbedFromPacked() const override { return true; }
  absl::Status CopyBlocks(const PagedKv& from, const PagedKv& to,
                          std::span<const BlockCopy> copies) override;
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
  void GatherColumns(Matrix parts, Matrix out) override;
  void Sample(Matrix logits, std::span<const SampleRow> rows,
              std::span<SampledToken> results) override;
  void Fetch(Matrix values, std::span<float> host) override;
  absl::Status EndStep() override;

  // Measures this GPU, with products of fp8 where weights are of fp8. Takes about 0.7 GB of device
  // memory while it runs. A rank measures alone: nothing is asked of its group.
  absl::StatusOr<MachineLimits> MeasureLimits();

 private:
  // An AttentionShape that Prepare was told of and FlashInfer serves, and the plan of its
  // attention.
  struct FlashInferShape {
    AttentionShape shape;
    cuda::AttentionPlan plan;
    int64_t max_partials = 0;
  };
  // Pinned memory that the numbers of one step pass through on their way to the host.
  struct HostCopy {
    explicit HostCopy(cuda::Event event) : copied(std::move(event)) {}
    // Has room for `bytes` afterwards. Nothing may be on its way.
    absl::Status Reserve(size_t bytes);

    cuda::Event copied;
    std::unique_ptr<cuda::PinnedMemory> memory;
  };
  // A step between BeginStep and EndStep.
  struct RunningStep {
    std::span<SampledToken> results;
    const HostCopy* copy = nullptr;  // where `fetched` comes from, if Fetch was called
    std::span<float> fetched;
    const cuda::Event* launched = nullptr;  // behind the operations of RunStep
    absl::Status fault;                     // the first of its launches
  };
  static constexpr size_t kMaxRunning = 2;

  CudaBackend(BackendInfo info, cuda::DeviceInfo device, cuda::Stream stream, bool fp8,
              Collective* collective);
  absl::Status CreateParts();
  // What brings weights to the device. Its buffers exist only while something is being loaded.
  absl::StatusOr<cuda::Uploader*> uploader();
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackFp8(const HostTensor& weight,
                                                        const Shard& part);
  // Brings a weight that is of e4m3 already to the device.
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackCodes(const HostTensor& weight,
                                                          const Shard& part);
  absl::Status PrepareProducts(const StepUses& uses);
  // Makes room for the weights of integers that steps of many rows multiply by.
  absl::Status PrepareIntegers(const StepUses& uses);
  // Prepares a product of a rung and, for fp8, the room that it needs.
  absl::Status PrepareRung(const cuda::ProductKey& group, int64_t rows, int64_t most,
                           std::span<const cuda::MatMulOperands> operands);
  absl::Status PrepareAttention(const StepUses& uses);
  absl::Status SetRope(std::span<const float> inv_freq);
  // Makes a sampler for so many rows, none of whose sequences is longer than `context`, unless
  // there is one.
  absl::Status PrepareSampling(int32_t vocab, int32_t rows, int32_t context);
  cuda::LastTokens LastDrawn() const;
  absl::Status MatMulFp8(const cuda::DeviceWeight& weight, Matrix in, Matrix out,
                         const MatMulEpilogue& epilogue);
  absl::Status MatMulIntegers(const cuda::IntegerWeight& weight, Matrix in, Matrix out,
                              const MatMulEpilogue& epilogue);
  // Returns the sizes of the step with padding, and says whether it is one to capture.
  cuda::StepSizes PlanStep(const StepLayout& layout, const PagedKv& kv, bool& capture);
  // Divides the step's attention and adds its grids to `sizes`.
  void PlanAttention(const StepLayout& layout, const PagedKv& kv, bool capture,
                     cuda::StepSizes& sizes);
  const FlashInferShape* FindFlashInfer(const AttentionShape& shape) const;
  // `shape` is that of the layer, for which `flashinfer` has the plan.
  void RunFlashInfer(const FlashInferShape& flashinfer, const AttentionShape& shape, Matrix qkv,
                     int layer, Matrix out);
  void RunPlain(const AttentionShape& shape, Matrix qkv, int layer, Matrix out);
  absl::Status RunOperations(uint64_t program, absl::FunctionRef<void()> operations);
  // See GraphCache: whether the other ranks captured a step as well.
  absl::StatusOr<bool> AllCaptured(bool captured);
  absl::Status Await(const RunningStep& step);
  // Keeps the first error of the step that began last.
  void Note(int error, std::string_view what);
  void Note(const absl::Status& status);
  // Whether a capture has failed already. NCCL would fail in it, too, which would end the group,
  // and the step can still run as it is.
  bool LostCapture() { return graphs_.capturing() && !Fault().ok(); }
  absl::Status& Fault() { return steps_.empty() ? fault_ : steps_.back().fault; }
  void* Plane(int layer, int plane) const;

  BackendInfo info_;
  const cuda::DeviceInfo device_;
  const cuda::Stream stream_;
  const bool fp8_;                // whether projections of floats that allow it become fp8
  Collective* const collective_;  // null without a group
  std::unique_ptr<cuda::Uploader> uploader_;
  std::unique_ptr<cuda::MatMul> matmul_;
  std::unique_ptr<cuda::Fp8Products> fp8_products_;
  cuda::QuantizedProducts integer_products_;
  std::optional<cuda::StepInputs> inputs_;
  cuda::GraphCache graphs_;

  int64_t max_capture_rows_ = 0;
  std::vector<FlashInferShape> flashinfer_;
  std::unique_ptr<cuda::DeviceMemory> partial_out_;
  std::unique_ptr<cuda::DeviceMemory> partial_lse_;
  std::vector<float> inv_freq_;  // what inv_freq_device_ holds
  std::unique_ptr<cuda::DeviceMemory> inv_freq_device_;

  std::unique_ptr<cuda::CudaSampler> sampler_;
  cuda::SamplerLimits sampler_limits_;  // of none at first

  OperationCheck check_;
  // What the step that began last works on.
  PagedKv kv_;
  cuda::StepSizes sizes_;
  bool capture_ = false;
  std::deque<RunningStep> steps_;      // oldest first, at most kMaxRunning
  std::vector<cuda::Event> launched_;  // [kMaxRunning] of RunningStep, in turn
  std::vector<HostCopy> copies_;       // likewise
  uint64_t begun_ = 0;                 // steps
  absl::Status fault_;                 // the first of launches outside a step
};

}  // namespace baton::kernels
