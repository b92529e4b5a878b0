#pragma once

#include <memory>

#include "kernels/host_backend.h"

namespace baton::kernels {

// The oracle that every other backend is compared with. Each operation is written as plain loops
// that sum in double and round each result once, to the dtype that the contract names. It is slow.
// Products by small integers are those of host backends, bit for bit: see QuantizedProduct. With
// `exact_inputs` they are not, but like all others: what devices that do not round inputs are
// compared with. With `in_pairs` attention rounds what version 2 rounds.
class ReferenceBackend final : public HostBackend {
 public:
  // `collective` is this rank's end of a tensor-parallel group, or null without one.
  explicit ReferenceBackend(DType compute_dtype, Collective* collective = nullptr,
                            bool exact_inputs = false, bool in_pairs = false);

  absl::StatusOr<std::unique_ptr<PackedWeight>> Pack(const HostTensor& weight,
                                                     const Shard& shard) override;
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackQuantized(const QuantizedTensor& weight,
                                                              const Shard& shard) override;
  const PackedImages* packed_images() const override { return nullptr; }
  absl::Status Prepare(const StepUses& uses) override;
  void Embed(const Buffer& table, Matrix out) override;
  void EmbedFromPacked(const PackedWeight& weight, Matrix out) override;
  void RmsNorm(Matrix in, const Buffer& weight, float eps, Matrix out) override;
  void MatMul(const PackedWeight& weight, Matrix in, Matrix out,
              const MatMulEpilogue& epilogue) override;
  void RopeAndStoreKv(Matrix qkv, int layer, const AttentionShape& shape, const RopeShape& rope,
                      const QkNorm& norm) override;
  void PagedAttention(Matrix qkv, int layer, const AttentionShape& shape, Matrix out) override;
  void SiluMul(Matrix gate_up, Matrix out) override;
  void Sample(Matrix logits, std::span<const SampleRow> rows,
              std::span<SampledToken> results) override;
};

}  // namespace baton::kernels
