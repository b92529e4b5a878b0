#pragma once

#include <memory>
#include <string>

#include "kernels/backend.h"
#include "kernels/collective.h"
#include "kernels/operation_check.h"

namespace baton::kernels {

// The oracle that every other backend is compared with. Each operation is written as plain loops
// that sum in double and round each result once, to the dtype that the contract names. It is slow.
class ReferenceBackend final : public Backend {
 public:
  // `collective` is this rank's end of a tensor-parallel group, or null without one.
  explicit ReferenceBackend(DType compute_dtype, Collective* collective = nullptr);

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

 private:
  BackendInfo info_;
  Collective* const collective_;
  OperationCheck check_;
  StepLayout layout_;
  PagedKv kv_;
  std::string fault_;
};

}  // namespace baton::kernels
