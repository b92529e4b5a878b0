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

// The forward pass of every model: pre-norm decoder layers of grouped-query attention and a gated
// MLP over a residual stream of fp32. What differs between families of models is in ModelConfig. It
// computes in fixed buffers, so nothing is allocated after Create. One thread drives it. A step
// that computes the prompt {5, 6, 7} in block 0 and draws the token behind it:
//
//   auto transformer = Transformer::Create(config, shape, std::move(weights), &backend,
//                                          {.max_tokens = 512, .max_samples = 8}).value();
//   const std::vector<int32_t> tokens = {5, 6, 7}, positions = {0, 1, 2}, blocks = {0}, last = {2};
//   const kernels::StepLayout::Sequence sequence = {
//       .token_begin = 0, .num_tokens = 3, .context = 3, .blocks = blocks};
//   const kernels::Matrix logits = transformer->Forward(
//       {.tokens = tokens, .positions = positions, .sequences = {&sequence, 1},
//        .sample_rows = last}, kv).value();
//   backend.Sample(logits, rows, results);   // rows: how to draw; results: what was drawn
//   const absl::Status status = backend.EndStep();
class Transformer final {
 public:
  // Allocates the buffers and prepares `backend`, which must outlive the transformer, for steps
  // within `limits`.
  static absl::StatusOr<std::unique_ptr<Transformer>> Create(const ModelConfig& config,
                                                             const LocalShape& shape,
                                                             ModelWeights weights,
                                                             kernels::Backend* backend,
                                                             const StepLimits& limits);

  // Computes a step and returns the logits after the tokens of `layout.sample_rows`, fp32 [at least
  // that many rows, vocab], which are valid until the next call. The caller ends the step by
  // Backend::EndStep when it has used them.
  absl::StatusOr<kernels::Matrix> Forward(const kernels::StepLayout& layout,
                                          const kernels::PagedKv& kv);

  // How many products a probe computes for each row that samples; 0 without one.
  int32_t probe_dims() const;
  // The products of the step of the last Forward, fp32 [samples, probe_dims()], dense; valid until
  // the next. Only where there is a probe.
  kernels::Matrix ProbeProducts(int64_t samples) const;

  const StepLimits& limits() const { return limits_; }
  kernels::Backend& backend() const { return *backend_; }
  const ModelWeights& weights() const { return weights_; }
  // How many operations have been called since Create. Any thread may ask.
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
  // Writes K and V of the residual stream's tokens to the cache and returns their q, k and v.
  kernels::Matrix StoreKv(int32_t layer, kernels::Matrix residual);
  // Returns what the heads read from the cache, before the output projection.
  kernels::Matrix Attend(int32_t layer, kernels::Matrix qkv);
  // Adds the projected output of the heads and then the MLP to `residual`, row by row.
  void FinishLayer(int32_t layer, kernels::Matrix heads, kernels::Matrix residual);
  kernels::Matrix LastLayer(kernels::Matrix residual, int64_t samples);
  // Computes the products of the probe, if it looks at what `layer` gives: the rows that sample of
  // the step's residual stream.
  void ProbeLayer(int32_t layer, kernels::Matrix residual, int64_t samples);
  void ProbeSampled(kernels::Matrix sampled);
  void MultiplyProbe(kernels::Matrix normed);
  // Multiplies by the output projection; with several ranks each computes its columns.
  void ProjectLogits(kernels::Matrix normed, kernels::Matrix logits);
  void Operations(const kernels::StepRows& rows, kernels::Matrix logits);
  // Adds the product of `in` and `weight`, of which each rank computes a part, to the residual
  // stream.
  void AddProduct(const kernels::PackedWeight& weight, const kernels::Buffer* bias,
                  kernels::Matrix in, kernels::Matrix residual);

  void Gather(kernels::Matrix in, kernels::Matrix out);
  void Norm(kernels::Matrix in, const kernels::Buffer& weight, kernels::Matrix out);
  void Project(const kernels::PackedWeight& weight, kernels::Matrix in, kernels::Matrix out,
               const kernels::MatMulEpilogue& epilogue);
  // Views of the two buffers of ActivationPlan that take turns.
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
  std::unique_ptr<kernels::Buffer> residual_, operand_, fused_, sampled_, normed_, logits_, parts_,
      probe_products_;
  std::atomic<uint64_t> operations_{0};
};

}  // namespace baton
