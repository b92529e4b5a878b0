#include "common/model/transformer.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/model/rope.h"

namespace baton {

using kernels::DType;
using kernels::Matrix;

Transformer::Transformer(const ModelConfig& config, const LocalShape& shape, ModelWeights weights,
                         kernels::Backend* backend, const StepLimits& limits)
    : config_(config),
      shape_(shape),
      weights_(std::move(weights)),
      backend_(backend),
      limits_(limits),
      dtype_(backend->info().compute_dtype),
      inv_freq_(RopeFrequencies(config.rope, config.head_dim)) {}

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Create(const ModelConfig& config,
                                                                 const LocalShape& shape,
                                                                 ModelWeights weights,
                                                                 kernels::Backend* backend,
                                                                 const StepLimits& limits) {
  if (limits.max_tokens < 1 || limits.max_samples < 1) {
    return absl::InvalidArgumentError(absl::StrCat("a step of up to ", limits.max_tokens,
                                                   " tokens and ", limits.max_samples,
                                                   " samples; expected at least one of each"));
  }
  auto transformer = std::unique_ptr<Transformer>(
      new Transformer(config, shape, std::move(weights), backend, limits));
  BATON_RETURN_IF_ERROR(transformer->AllocateBuffers());
  const auto projections = transformer->weights_.projections();
  BATON_RETURN_IF_ERROR(backend->Prepare(projections, limits.max_tokens));
  return transformer;
}

absl::Status Transformer::AllocateBuffers() {
  const ActivationPlan plan = PlanActivations(config_, shape_, dtype_, limits_);
  BATON_ASSIGN_OR_RETURN(residual_, backend_->Allocate(plan.residual));
  BATON_ASSIGN_OR_RETURN(narrow_, backend_->Allocate(plan.narrow));
  BATON_ASSIGN_OR_RETURN(wide_, backend_->Allocate(plan.wide));
  BATON_ASSIGN_OR_RETURN(sampled_, backend_->Allocate(plan.sampled));
  BATON_ASSIGN_OR_RETURN(normed_, backend_->Allocate(plan.normed));
  BATON_ASSIGN_OR_RETURN(logits_, backend_->Allocate(plan.logits));
  return absl::OkStatus();
}

Matrix Transformer::Residual(int64_t tokens) const {
  return Matrix::Dense(residual_->data(), DType::kF32, tokens, config_.hidden);
}
Matrix Transformer::Narrow(int64_t tokens, int64_t cols) const {
  return Matrix::Dense(narrow_->data(), dtype_, tokens, cols);
}
Matrix Transformer::Wide(int64_t tokens, int64_t cols) const {
  return Matrix::Dense(wide_->data(), dtype_, tokens, cols);
}

void Transformer::Norm(Matrix in, const kernels::Buffer& weight, Matrix out) {
  backend_->RmsNorm(in, weight, static_cast<float>(config_.rms_eps), out);
  CountOperation();
}

void Transformer::Project(const kernels::PackedWeight& weight, Matrix in, Matrix out,
                          const kernels::MatMulEpilogue& epilogue) {
  backend_->MatMul(weight, in, out, epilogue);
  CountOperation();
}

void Transformer::Embed(int64_t tokens) {
  if (weights_.embedding != nullptr) {
    backend_->Embed(*weights_.embedding, Residual(tokens));
  } else {
    backend_->EmbedFromPacked(*weights_.output, Residual(tokens));
  }
  CountOperation();
}

void Transformer::Attention(int32_t layer, int64_t tokens) {
  const LayerWeights& w = weights_.layers[layer];
  const int64_t q_size = int64_t{shape_.q_heads} * config_.head_dim;
  const int64_t kv_size = int64_t{shape_.kv_heads} * config_.head_dim;
  const kernels::AttentionShape attention = {
      .q_heads = shape_.q_heads,
      .kv_heads = shape_.kv_heads,
      .head_dim = config_.head_dim,
      .sliding_window = config_.windows[layer],
      .scale = 1.0F / std::sqrt(static_cast<float>(config_.head_dim))};
  const kernels::RopeShape rope = {
      .inv_freq = inv_freq_, .attention_factor = static_cast<float>(config_.rope.attention_factor)};
  const kernels::QkNorm norm = {
      .q = w.q_norm.get(), .k = w.k_norm.get(), .eps = static_cast<float>(config_.rms_eps)};

  const Matrix input = Narrow(tokens, config_.hidden);
  Norm(Residual(tokens), *w.attention_norm, input);
  const Matrix qkv = Wide(tokens, q_size + 2 * kv_size);
  Project(*w.qkv, input, qkv, {.bias = w.qkv_bias.get()});
  backend_->RopeAndStoreKv(qkv, layer, attention, rope, norm);
  CountOperation();
  const Matrix heads = Narrow(tokens, q_size);
  backend_->PagedAttention(qkv, layer, attention, heads);
  CountOperation();
  Project(*w.o, heads, Residual(tokens), {.bias = w.o_bias.get(), .accumulate = true});
}

void Transformer::Mlp(int32_t layer, int64_t tokens) {
  const LayerWeights& w = weights_.layers[layer];
  const Matrix input = Narrow(tokens, config_.hidden);
  Norm(Residual(tokens), *w.mlp_norm, input);
  const Matrix gate_up = Wide(tokens, 2 * int64_t{shape_.ffn});
  Project(*w.gate_up, input, gate_up, {.bias = w.gate_up_bias.get()});
  const Matrix gated = Narrow(tokens, shape_.ffn);
  backend_->SiluMul(gate_up, gated);
  CountOperation();
  Project(*w.down, gated, Residual(tokens), {.bias = w.down_bias.get(), .accumulate = true});
}

Matrix Transformer::Logits(int64_t tokens, std::span<const int32_t> rows) {
  const int64_t count = static_cast<int64_t>(rows.size());
  const Matrix sampled = Matrix::Dense(sampled_->data(), DType::kF32, count, config_.hidden);
  backend_->GatherRows(Residual(tokens), rows, sampled);
  CountOperation();
  const Matrix normed = Matrix::Dense(normed_->data(), dtype_, count, config_.hidden);
  Norm(sampled, *weights_.final_norm, normed);
  const Matrix logits = Matrix::Dense(logits_->data(), DType::kF32, count, config_.vocab);
  Project(*weights_.output, normed, logits, {});
  return logits;
}

absl::StatusOr<Matrix> Transformer::Forward(const kernels::StepLayout& layout,
                                            const kernels::PagedKv& kv,
                                            std::span<const int32_t> rows) {
  const int64_t tokens = static_cast<int64_t>(layout.tokens.size());
  BATON_CHECK(tokens > 0 && tokens <= limits_.max_tokens)
      << tokens << " tokens in a step of at most " << limits_.max_tokens;
  BATON_CHECK(static_cast<int64_t>(rows.size()) <= limits_.max_samples)
      << rows.size() << " samples in a step of at most " << limits_.max_samples;
  BATON_RETURN_IF_ERROR(backend_->BeginStep(layout, kv));
  Embed(tokens);
  for (int32_t layer = 0; layer < config_.layers; ++layer) {
    Attention(layer, tokens);
    Mlp(layer, tokens);
  }
  return rows.empty() ? Matrix{} : Logits(tokens, rows);
}

}  // namespace baton
