#include "common/model/transformer.h"

#include <algorithm>
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
  // A row that draws has at least one token, so more samples than tokens never come.
  StepLimits tight = limits;
  tight.max_samples = std::min(limits.max_samples, limits.max_tokens);
  if (limits.max_sequences == 0) tight.max_sequences = tight.max_samples;
  auto transformer = std::unique_ptr<Transformer>(
      new Transformer(config, shape, std::move(weights), backend, tight));
  BATON_RETURN_IF_ERROR(transformer->AllocateBuffers());
  const std::vector<kernels::MatMulUse> products = transformer->Products();
  const std::vector<kernels::AttentionShape> attentions = transformer->Attentions();
  BATON_RETURN_IF_ERROR(
      backend->Prepare({.products = products,
                        .attentions = attentions,
                        .rope = transformer->Rope(),
                        .max_tokens = tight.max_tokens,
                        .max_samples = tight.max_samples,
                        .max_sequences = tight.max_sequences,
                        .max_context = config.max_positions,
                        .vocab = config.vocab,
                        .fetched = int64_t{tight.max_samples} * transformer->probe_dims()}));
  return transformer;
}

absl::Status Transformer::AllocateBuffers() {
  const ActivationPlan plan = PlanActivations(config_, shape_, dtype_, limits_);
  BATON_ASSIGN_OR_RETURN(residual_, backend_->Allocate(plan.residual));
  BATON_ASSIGN_OR_RETURN(operand_, backend_->Allocate(plan.operand));
  BATON_ASSIGN_OR_RETURN(fused_, backend_->Allocate(plan.fused));
  BATON_ASSIGN_OR_RETURN(sampled_, backend_->Allocate(plan.sampled));
  BATON_ASSIGN_OR_RETURN(normed_, backend_->Allocate(plan.normed));
  BATON_ASSIGN_OR_RETURN(logits_, backend_->Allocate(plan.logits));
  if (plan.parts > 0) {
    BATON_ASSIGN_OR_RETURN(parts_, backend_->Allocate(plan.parts));
  }
  if (probe_dims() > 0) {
    BATON_ASSIGN_OR_RETURN(
        probe_products_,
        backend_->Allocate(sizeof(float) * static_cast<size_t>(limits_.max_samples) *
                           static_cast<size_t>(probe_dims())));
  }
  return absl::OkStatus();
}

// Lists every product of a step, for the backend to prepare.
std::vector<kernels::MatMulUse> Transformer::Products() const {
  std::vector<kernels::MatMulUse> uses;
  const int rows = limits_.max_tokens;
  for (const LayerWeights& w : weights_.layers) {
    const auto add = [&](const auto& weight, const auto& bias, kernels::MatMulUse use) {
      use.weight = weight.get();
      use.bias = bias != nullptr;
      use.max_rows = rows;
      uses.push_back(use);
    };
    const kernels::MatMulUse fused = {.out = dtype_};
    const kernels::MatMulUse summed = {
        .out = DType::kF32, .accumulate = shape_.rank == 0, .part = shape_.ranks > 1};
    add(w.qkv, w.qkv_bias, fused);
    add(w.o, w.o_bias, summed);
    add(w.gate_up, w.gate_up_bias, fused);
    add(w.down, w.down_bias, summed);
  }
  uses.push_back({.weight = weights_.output.get(),
                  .out = DType::kF32,
                  .max_rows = limits_.max_samples,
                  .part = parts_ != nullptr});
  if (weights_.probe.has_value()) {
    uses.push_back({.weight = weights_.probe->directions.get(),
                    .out = DType::kF32,
                    .bias = weights_.probe->biases != nullptr,
                    .max_rows = limits_.max_samples});
  }
  return uses;
}

// One AttentionShape of each that differs. Layers differ by their window, and by the scales of
// their keys and values, which no plan depends on.
std::vector<kernels::AttentionShape> Transformer::Attentions() const {
  std::vector<kernels::AttentionShape> shapes;
  for (int32_t layer = 0; layer < config_.layers; ++layer) {
    const bool known = std::any_of(shapes.begin(), shapes.end(), [&](const auto& shape) {
      return shape.sliding_window == config_.windows[layer];
    });
    if (!known) shapes.push_back(AttentionOf(layer));
  }
  return shapes;
}

kernels::RopeShape Transformer::Rope() const {
  return {.inv_freq = inv_freq_,
          .attention_factor = static_cast<float>(config_.rope.attention_factor)};
}

Matrix Transformer::Operand(int64_t rows, int64_t cols) const {
  return Matrix::Dense(operand_->data(), dtype_, rows, cols);
}
Matrix Transformer::Fused(int64_t rows, int64_t cols) const {
  return Matrix::Dense(fused_->data(), dtype_, rows, cols);
}

kernels::AttentionShape Transformer::AttentionOf(int32_t layer) const {
  return {.q_heads = shape_.q_heads,
          .kv_heads = shape_.kv_heads,
          .head_dim = config_.head_dim,
          .sliding_window = config_.windows[layer],
          .scale = 1.0F / std::sqrt(static_cast<float>(config_.head_dim)),
          .k_scale = weights_.layers[static_cast<size_t>(layer)].kv_scales.k,
          .v_scale = weights_.layers[static_cast<size_t>(layer)].kv_scales.v};
}

void Transformer::Gather(Matrix in, Matrix out) {
  backend_->GatherSampled(in, out);
  CountOperation();
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

// Rank 0 adds its part to the residual and the other ranks put theirs in its place, so the sum over
// the ranks is the new residual on each of them.
void Transformer::AddProduct(const kernels::PackedWeight& weight, const kernels::Buffer* bias,
                             Matrix in, Matrix residual) {
  Project(weight, in, residual, {.bias = bias, .accumulate = shape_.rank == 0});
  backend_->AllReduce(residual);
  CountOperation();
}

void Transformer::Embed(Matrix residual) {
  if (weights_.embedding != nullptr) {
    backend_->Embed(*weights_.embedding, residual);
  } else {
    backend_->EmbedFromPacked(*weights_.output, residual);
  }
  CountOperation();
}

Matrix Transformer::StoreKv(int32_t layer, Matrix residual) {
  const LayerWeights& w = weights_.layers[layer];
  const kernels::QkNorm norm = {
      .q = w.q_norm.get(), .k = w.k_norm.get(), .eps = static_cast<float>(config_.rms_eps)};
  const Matrix input = Operand(residual.rows, config_.hidden);
  Norm(residual, *w.attention_norm, input);
  const int64_t heads = shape_.q_heads + 2 * int64_t{shape_.kv_heads};
  const Matrix qkv = Fused(residual.rows, heads * config_.head_dim);
  Project(*w.qkv, input, qkv, {.bias = w.qkv_bias.get()});
  backend_->RopeAndStoreKv(qkv, layer, AttentionOf(layer), Rope(), norm);
  CountOperation();
  return qkv;
}

Matrix Transformer::Attend(int32_t layer, Matrix qkv) {
  const Matrix heads = Operand(qkv.rows, int64_t{shape_.q_heads} * config_.head_dim);
  backend_->PagedAttention(qkv, layer, AttentionOf(layer), heads);
  CountOperation();
  return heads;
}

void Transformer::FinishLayer(int32_t layer, Matrix heads, Matrix residual) {
  const LayerWeights& w = weights_.layers[layer];
  AddProduct(*w.o, w.o_bias.get(), heads, residual);
  const Matrix input = Operand(residual.rows, config_.hidden);
  Norm(residual, *w.mlp_norm, input);
  const Matrix gate_up = Fused(residual.rows, 2 * int64_t{shape_.ffn});
  Project(*w.gate_up, input, gate_up, {.bias = w.gate_up_bias.get()});
  const Matrix gated = Operand(residual.rows, shape_.ffn);
  backend_->SiluMul(gate_up, gated);
  CountOperation();
  AddProduct(*w.down, w.down_bias.get(), gated, residual);
}

// Once the last layer's K and V are stored, only the rows that sample matter.
Matrix Transformer::LastLayer(Matrix residual, int64_t samples) {
  const int32_t layer = config_.layers - 1;
  const Matrix heads = Attend(layer, StoreKv(layer, residual));
  const Matrix sampled = Matrix::Dense(sampled_->data(), DType::kF32, samples, config_.hidden);
  Gather(residual, sampled);
  const Matrix sampled_heads = Fused(samples, heads.cols);
  Gather(heads, sampled_heads);
  FinishLayer(layer, sampled_heads, sampled);
  return sampled;
}

int32_t Transformer::probe_dims() const {
  return weights_.probe.has_value() ? static_cast<int32_t>(weights_.probe->directions->out()) : 0;
}

Matrix Transformer::ProbeProducts(int64_t samples) const {
  return Matrix::Dense(probe_products_->data(), DType::kF32, samples, probe_dims());
}

void Transformer::MultiplyProbe(Matrix normed) {
  Project(*weights_.probe->directions, normed, ProbeProducts(normed.rows),
          {.bias = weights_.probe->biases.get()});
}

void Transformer::ProbeSampled(Matrix sampled) {
  const Matrix normed = Matrix::Dense(normed_->data(), dtype_, sampled.rows, config_.hidden);
  Norm(sampled, *weights_.probe->ones, normed);
  MultiplyProbe(normed);
}

// The buffers are those that the last layer will fill.
void Transformer::ProbeLayer(int32_t layer, Matrix residual, int64_t samples) {
  if (samples == 0 || !weights_.probe.has_value() || weights_.probe->layer != layer) return;
  const Matrix sampled = Matrix::Dense(sampled_->data(), DType::kF32, samples, config_.hidden);
  Gather(residual, sampled);
  ProbeSampled(sampled);
}

void Transformer::ProjectLogits(Matrix normed, Matrix logits) {
  if (parts_ == nullptr) return Project(*weights_.output, normed, logits, {});
  const int64_t part = logits.rows * kernels::WidestShare(logits.cols, shape_.ranks);
  const Matrix parts = Matrix::Dense(parts_->data(), DType::kF32, shape_.ranks, part);
  const Matrix own =
      Matrix::Dense(parts.row(shape_.rank), DType::kF32, logits.rows, weights_.output->out());
  Project(*weights_.output, normed, own, {});
  backend_->GatherColumns(parts, logits);
  CountOperation();
}

void Transformer::Operations(const kernels::StepRows& rows, Matrix logits) {
  const Matrix residual =
      Matrix::Dense(residual_->data(), DType::kF32, rows.tokens, config_.hidden);
  Embed(residual);
  for (int32_t layer = 0; layer < config_.layers - 1; ++layer) {
    FinishLayer(layer, Attend(layer, StoreKv(layer, residual)), residual);
    ProbeLayer(layer, residual, rows.samples);
  }
  if (rows.samples == 0) {
    StoreKv(config_.layers - 1, residual);
    return;
  }
  const Matrix sampled = LastLayer(residual, rows.samples);
  const bool probes = weights_.probe.has_value();
  if (probes && weights_.probe->layer == config_.layers - 1) ProbeSampled(sampled);
  const Matrix normed = Matrix::Dense(normed_->data(), dtype_, sampled.rows, config_.hidden);
  Norm(sampled, *weights_.final_norm, normed);
  if (probes && weights_.probe->layer < 0) MultiplyProbe(normed);
  ProjectLogits(normed, logits);
}

absl::StatusOr<Matrix> Transformer::Forward(const kernels::StepLayout& layout,
                                            const kernels::PagedKv& kv) {
  const int64_t tokens = static_cast<int64_t>(layout.tokens.size());
  BATON_CHECK(tokens > 0 && tokens <= limits_.max_tokens)
      << tokens << " tokens in a step of at most " << limits_.max_tokens;
  BATON_CHECK(static_cast<int64_t>(layout.sample_rows.size()) <= limits_.max_samples)
      << layout.sample_rows.size() << " samples in a step of at most " << limits_.max_samples;
  BATON_ASSIGN_OR_RETURN(const kernels::StepRows rows, backend_->BeginStep(layout, kv));
  const Matrix logits = Matrix::Dense(logits_->data(), DType::kF32, rows.samples, config_.vocab);
  const uint64_t program = reinterpret_cast<uint64_t>(this);
  BATON_RETURN_IF_ERROR(backend_->RunStep(program, [&] { Operations(rows, logits); }));
  CountOperation();
  return logits;
}

}  // namespace baton
