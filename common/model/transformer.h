#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/formats/model_config.h"
#include "common/model/activations.h"
#include "common/model/weights.h"
#include "kernels/backend.h"

namespace baton {

// The forward pass, the only one: pre-norm decoder layers of grouped-query attention and a gated
// MLP over a fp32 residual stream. All that differs between families is in ModelConfig. Computes in
// fixed buffers; nothing is allocated after Create. One thread drives it.
class Transformer final {
 public:
  // Borrows `backend`. Allocates the buffers and prepares the backend for steps within `limits`.
  static absl::StatusOr<std::unique_ptr<Transformer>> Create(const ModelConfig& config,
                                                             const LocalShape& shape,
                                                             ModelWeights weights,
                                                             kernels::Backend* backend,
                                                             const StepLimits& limits);

  // Computes a step and returns the logits after the tokens `layout.sample_rows`, fp32 [at least
  // that many, vocab], valid until the next call. The caller ends the step (Backend::EndStep) when
  // it has used them.
  absl::StatusOr<kernels::Matrix> Forward(const kernels::StepLayout& layout,
                                          const kernels::PagedKv& kv);

  const StepLimits& limits() const { return limits_; }
  kernels::Backend& backend() const { return *backend_; }
  const ModelWeights& weights() const { return weights_; }
  // Operations finished since Create. Any thread may ask.
  uint64_t operations_finished() const { return operations_.load(std::memory_order_relaxed); }
  void CountOperation() { operations_.fetch_add(1, std::memory_order_relaxed); }

 private:
  Transformer(const ModelConfig& config, const LocalShape& shape, ModelWeights weights,
              kernels::Backend* backend, const StepLimits& limits);
  absl::Status AllocateBuffers();
  std::vector<kernels::MatMulUse> Products() const;
  std::vector<kernels::AttentionShape> Attentions() const;
  kernels::RopeShape Rope() const;

  void Embed(kernels::Matrix residual);
  // K and V of the residual stream's tokens into the cache; their q, k and v.
  kernels::Matrix StoreKv(int32_t layer, kernels::Matrix residual);
  // What the heads read from the cache, before the output projection.
  kernels::Matrix Attend(int32_t layer, kernels::Matrix qkv);
  // Of the heads' output `heads` and the MLP into `residual`, row by row.
  void FinishLayer(int32_t layer, kernels::Matrix heads, kernels::Matrix residual);
  kernels::Matrix LastLayer(kernels::Matrix residual, int64_t samples);
  void Operations(const kernels::StepRows& rows, kernels::Matrix logits);
  // Adds x times `weight` to the residual stream, of which each rank has computed a part.
  void AddProduct(const kernels::PackedWeight& weight, const kernels::Buffer* bias,
                  kernels::Matrix in, kernels::Matrix residual);

  void Gather(kernels::Matrix in, kernels::Matrix out);
  void Norm(kernels::Matrix in, const kernels::Buffer& weight, kernels::Matrix out);
  void Project(const kernels::PackedWeight& weight, kernels::Matrix in, kernels::Matrix out,
               const kernels::MatMulEpilogue& epilogue);
  // Views of the two activation buffers, which take turns.
  kernels::Matrix Operand(int64_t rows, int64_t cols) const;
  kernels::Matrix Fused(int64_t rows, int64_t cols) const;
  kernels::AttentionShape AttentionOf(int32_t layer) const;

  const ModelConfig config_;
  const LocalShape shape_;
  const ModelWeights weights_;
  kernels::Backend* const backend_;
  const StepLimits limits_;
  const kernels::DType dtype_;  // of activations
  const std::vector<float> inv_freq_;
  std::unique_ptr<kernels::Buffer> residual_, operand_, fused_, sampled_, normed_, logits_;
  std::atomic<uint64_t> operations_{0};
};

}  // namespace baton
