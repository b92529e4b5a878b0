#pragma once

#include <memory>
#include <vector>

#include "kernels/backend_factory.h"
#include "kernels/cpu/attention/attention_tasks.h"
#include "kernels/cpu/attention/paged_attention.h"
#include "kernels/cpu/cpu_images.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/quantized_gemm.h"
#include "kernels/cpu/rms_norm.h"
#include "kernels/cpu/rope_store.h"
#include "kernels/cpu/sample.h"
#include "kernels/cpu/silu_mul.h"
#include "kernels/cpu/thread_team.h"
#include "kernels/host_backend.h"

namespace baton::kernels {

// The backend of the host's processor. Products are made by a Gemm of the chosen instruction set,
// and those by weights of integers by a QuantizedGemm; everything else by own vector kernels of the
// chosen instruction set. One thread at a time drives it.
class CpuBackend final : public HostBackend {
 public:
  static absl::StatusOr<std::unique_ptr<Backend>> Create(const BackendOptions& options);

  absl::Status Zero(Buffer& buffer) override;
  absl::StatusOr<std::unique_ptr<PackedWeight>> Pack(const HostTensor& weight,
                                                     const Shard& shard) override;
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackQuantized(const QuantizedTensor& weight,
                                                              const Shard& shard) override;
  const PackedImages* packed_images() const override { return &images_; }
  absl::Status Prepare(const StepUses& uses) override;
  absl::StatusOr<StepRows> BeginStep(const StepLayout& layout, const PagedKv& kv) override;
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

 private:
  CpuBackend(BackendInfo info, cpu::Isa isa, std::unique_ptr<cpu::Gemm> gemm,
             cpu::PagedAttentionFn paged_attention, Collective* collective);

  cpu::ThreadTeam team_;
  std::unique_ptr<cpu::Gemm> gemm_;
  cpu::CpuImages images_;
  cpu::QuantizedGemm quantized_gemm_;
  cpu::RmsNormFn rms_norm_;
  cpu::SiluMulFn silu_mul_;
  cpu::RopeStoreFn rope_store_;
  cpu::PagedAttentionFn paged_attention_;
  cpu::SampleOps sample_ops_;

  std::vector<int32_t> sequence_of_;  // [tokens]
  cpu::RopeTable rope_table_;
  cpu::AttentionTasks attention_tasks_;  // of the step
  std::unique_ptr<Buffer> attention_scratch_;
  std::vector<cpu::RowSampler> samplers_;  // one per thread
};

}  // namespace baton::kernels
