#include "kernels/bench/llama_step.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "common/base/check.h"
#include "kernels/float_convert.h"
#include "kernels/quantized_tensor.h"

namespace baton::kernels {
namespace {

// MatMuls includes the output projection up to so many rows.
constexpr int kRowsWithLogits = 8;
// The most rows of a step that draw.
constexpr int kSamples = 64;

std::unique_ptr<Buffer> Take(absl::StatusOr<std::unique_ptr<Buffer>> buffer) {
  BATON_CHECK(buffer.ok()) << buffer.status().ToString();
  return std::move(buffer).value();
}

void CheckOk(const absl::Status& status) { BATON_CHECK(status.ok()) << status.ToString(); }

}  // namespace

LlamaStep::LlamaStep(Backend& backend, const LlamaShape& model, const StoredIntegers& stored,
                     std::optional<DType> kv_dtype)
    : backend_(backend),
      model_(model),
      stored_(stored),
      dtype_(backend.info().compute_dtype),
      shape_{.q_heads = model_.q_heads,
             .kv_heads = model_.kv_heads,
             .head_dim = model_.head_dim,
             .scale = 1.0f / std::sqrt(static_cast<float>(model_.head_dim))} {
  for (int i = 0; i < model_.head_dim / 2; ++i) {
    inv_freq_.push_back(std::pow(10000.0f, -2.0f * static_cast<float>(i) / model_.head_dim));
  }
  for (int i = 0; i < model_.layers; ++i) {
    layers_.push_back(
        {RandomWeight(model_.qkv(), model_.hidden), RandomWeight(model_.hidden, model_.hidden),
         RandomWeight(2 * model_.ffn, model_.hidden), RandomWeight(model_.hidden, model_.ffn)});
  }
  head_ = RandomWeight(model_.vocab, model_.hidden, /*keep_precision=*/true);
  probe_ = RandomWeight(kProbeDims, model_.hidden, /*keep_precision=*/true);
  random_values_ = {};
  codes_ = {};
  const std::vector<float> ones(model_.hidden, 1.0f);
  norm_weight_ = Take(backend_.UploadVector({ones.data(), DType::kF32, 1, model_.hidden}));
  const size_t size = SizeOf(dtype_);
  residual_ = Take(
      backend_.Allocate(static_cast<size_t>(model_.max_tokens) * model_.hidden * sizeof(float)));
  normed_ = Take(backend_.Allocate(model_.max_tokens * model_.hidden * size));
  qkv_ = Take(backend_.Allocate(model_.max_tokens * model_.qkv() * size));
  attended_ = Take(backend_.Allocate(model_.max_tokens * model_.hidden * size));
  gate_up_ = Take(backend_.Allocate(model_.max_tokens * 2 * model_.ffn * size));
  ffn_ = Take(backend_.Allocate(model_.max_tokens * model_.ffn * size));
  logits_ = Take(backend_.Allocate(size_t{kSamples} * model_.vocab * sizeof(float)));
  products_ = Take(backend_.Allocate(size_t{kSamples} * kProbeDims * sizeof(float)));
  for (Buffer* buffer : {residual_.get(), normed_.get(), qkv_.get(), attended_.get(),
                         gate_up_.get(), ffn_.get(), logits_.get()}) {
    CheckOk(backend_.Zero(*buffer));
  }
  kv_.layout = {.dtype = kv_dtype.value_or(dtype_),
                .block_size = kBlock,
                .layers = model_.layers,
                .kv_heads = model_.kv_heads,
                .head_dim = model_.head_dim};
  kv_.num_blocks = model_.kv_tokens / kBlock;
  arena_ = Take(backend_.Allocate(kv_.layout.block_bytes() * model_.kv_tokens / kBlock));
  kv_.arena = static_cast<std::byte*>(arena_->data());
  CheckOk(backend_.Zero(*arena_));
  std::vector<MatMulUse> uses;
  for (const Layer& layer : layers_) {
    const int rows = model_.max_tokens;
    uses.push_back({.weight = layer.qkv.get(), .out = dtype_, .max_rows = rows});
    uses.push_back({.weight = layer.o.get(), .accumulate = true, .max_rows = rows});
    uses.push_back({.weight = layer.gate_up.get(), .out = dtype_, .max_rows = rows});
    uses.push_back({.weight = layer.down.get(), .accumulate = true, .max_rows = rows});
  }
  uses.push_back({.weight = head_.get(), .max_rows = kSamples});
  uses.push_back({.weight = probe_.get(), .max_rows = kSamples});
  CheckOk(backend_.Prepare({.products = uses,
                            .attentions = {&shape_, 1},
                            .rope = RopeShape{inv_freq_, 1.0f},
                            .max_tokens = model_.max_tokens,
                            .max_samples = kSamples,
                            .vocab = model_.vocab,
                            .fetched = int64_t{kSamples} * kProbeDims}));
}

void LlamaStep::MakeCodes(size_t count, float most, float scale) {
  codes_.reserve(count);
  for (size_t i = codes_.size(); i < count; ++i) {
    const float code = std::nearbyint(FloatFromBf16(random_values_[i]) / scale - 0.5f);
    codes_.push_back(static_cast<int8_t>(std::clamp(code, -most - 0.5f, most - 0.5f)));
  }
}

// The same numbers as integers with one scale.
std::unique_ptr<PackedWeight> LlamaStep::RandomIntegers(int64_t out, int64_t in) {
  const float most = stored_.bits == 4 ? 7.5f : 127.5f;
  const float scale = FloatFromBf16(Bf16FromFloat(0.025f / most));
  MakeCodes(static_cast<size_t>(out * in), most, scale);
  const auto groups = static_cast<size_t>(out * (in / stored_.group));
  const std::vector<float> scales(groups, scale);
  QuantizedTensor weight = {.bits = stored_.bits,
                            .rows = out,
                            .cols = in,
                            .group = stored_.group,
                            .codes = codes_.data(),
                            .scales = scales.data(),
                            .scale_dtype = DType::kBF16};
  const std::vector<int8_t> ones(groups, 1);
  const std::vector<uint16_t> units(groups, F16FromFloat(scale));
  if (stored_.unit_groups > 0) {
    weight.unit_groups = stored_.unit_groups;
    weight.scale_steps = {ones.data(), units.data()};
    weight.minimum_steps = weight.scale_steps;
  }
  if (stored_.minimums) weight.minimums = scales.data();
  auto packed = backend_.PackQuantized(weight, {});
  BATON_CHECK(packed.ok()) << packed.status().ToString();
  return std::move(packed).value();
}

std::unique_ptr<PackedWeight> LlamaStep::RandomWeight(int64_t out, int64_t in,
                                                      bool keep_precision) {
  // Numbers around 0 that cost little to make and keep activations near 1. Every weight starts with
  // the same ones.
  uint32_t state = random_values_.empty() ? 12345 : random_state_;
  random_values_.reserve(static_cast<size_t>(out * in));
  while (random_values_.size() < static_cast<size_t>(out * in)) {
    state = state * 1664525 + 1013904223;
    const float uniform = static_cast<float>(state >> 8) * 0x1.0p-24f - 0.5f;
    random_values_.push_back(Bf16FromFloat(uniform * 0.05f));
  }
  random_state_ = state;
  if (stored_.bits != 0 && !keep_precision) return RandomIntegers(out, in);
  auto packed = backend_.Pack({random_values_.data(), DType::kBF16, out, in, keep_precision}, {});
  BATON_CHECK(packed.ok()) << packed.status().ToString();
  return std::move(packed).value();
}

Matrix LlamaStep::View(const Buffer& buffer, DType dtype, int64_t rows, int64_t cols) const {
  return Matrix::Dense(buffer.data(), dtype, rows, cols);
}

void LlamaStep::Begin(int sequences, int tokens, int context) {
  sequences_ = sequences;
  rows_ = sequences * tokens;
  tokens_.assign(rows_, 7);
  positions_.clear();
  tables_.assign(sequences, {});
  layout_.clear();
  last_rows_.clear();
  const int blocks = (context + kBlock - 1) / kBlock;
  for (int s = 0; s < sequences; ++s) {
    for (int b = 0; b < blocks; ++b) tables_[s].push_back(s * blocks + b);
    for (int i = 0; i < tokens; ++i) positions_.push_back(context - tokens + i);
    layout_.push_back({s * tokens, tokens, context, tables_[s]});
    last_rows_.push_back((s + 1) * tokens - 1);
  }
  const auto begun = backend_.BeginStep(
      {.tokens = tokens_, .positions = positions_, .sequences = layout_, .sample_rows = last_rows_},
      kv_);
  CheckOk(begun.status());
  rows_ = static_cast<int>(begun->tokens);
  samples_ = static_cast<int>(begun->samples);
}

void LlamaStep::RunLayer(int layer) {
  const Layer& weights = layers_[layer];
  const Matrix residual = View(*residual_, DType::kF32, rows_, model_.hidden);
  const Matrix normed = View(*normed_, dtype_, rows_, model_.hidden);
  const Matrix qkv = View(*qkv_, dtype_, rows_, model_.qkv());
  const Matrix attended = View(*attended_, dtype_, rows_, model_.hidden);
  const Matrix gate_up = View(*gate_up_, dtype_, rows_, 2 * model_.ffn);
  const Matrix ffn = View(*ffn_, dtype_, rows_, model_.ffn);
  backend_.RmsNorm(residual, *norm_weight_, 1e-5f, normed);
  backend_.MatMul(*weights.qkv, normed, qkv, {});
  backend_.RopeAndStoreKv(qkv, layer, shape_, {inv_freq_, 1.0f}, {});
  backend_.PagedAttention(qkv, layer, shape_, attended);
  backend_.MatMul(*weights.o, attended, residual, {.accumulate = true});
  backend_.RmsNorm(residual, *norm_weight_, 1e-5f, normed);
  backend_.MatMul(*weights.gate_up, normed, gate_up, {});
  backend_.SiluMul(gate_up, ffn);
  backend_.MatMul(*weights.down, ffn, residual, {.accumulate = true});
}

void LlamaStep::Forward() {
  CheckOk(backend_.RunStep(reinterpret_cast<uint64_t>(this), [this] {
    Embed();
    for (int layer = 0; layer < model_.layers; ++layer) RunLayer(layer);
    Norm();
    const Matrix last = View(*attended_, dtype_, samples_, model_.hidden);
    backend_.GatherSampled(View(*normed_, dtype_, rows_, model_.hidden), last);
    backend_.MatMul(*head_, last, View(*logits_, DType::kF32, samples_, model_.vocab), {});
  }));
  Sample({});
}

void LlamaStep::Finish() { CheckOk(backend_.EndStep()); }

void LlamaStep::MatMuls(int rows) {
  const Matrix residual = View(*residual_, DType::kF32, rows, model_.hidden);
  const Matrix normed = View(*normed_, dtype_, rows, model_.hidden);
  for (const Layer& weights : layers_) {
    backend_.MatMul(*weights.qkv, normed, View(*qkv_, dtype_, rows, model_.qkv()), {});
    backend_.MatMul(*weights.o, normed, residual, {.accumulate = true});
    backend_.MatMul(*weights.gate_up, normed, View(*gate_up_, dtype_, rows, 2 * model_.ffn), {});
    backend_.MatMul(*weights.down, View(*ffn_, dtype_, rows, model_.ffn), residual,
                    {.accumulate = true});
  }
  if (rows <= kRowsWithLogits) {
    backend_.MatMul(*head_, normed, View(*logits_, DType::kF32, rows, model_.vocab), {});
  }
}

void LlamaStep::Norm() {
  backend_.RmsNorm(View(*residual_, DType::kF32, rows_, model_.hidden), *norm_weight_, 1e-5f,
                   View(*normed_, dtype_, rows_, model_.hidden));
}

void LlamaStep::Silu() {
  backend_.SiluMul(View(*gate_up_, dtype_, rows_, 2 * model_.ffn),
                   View(*ffn_, dtype_, rows_, model_.ffn));
}

void LlamaStep::Rope() {
  backend_.RopeAndStoreKv(View(*qkv_, dtype_, rows_, model_.qkv()), 0, shape_, {inv_freq_, 1.0f},
                          {});
}

void LlamaStep::Attention() {
  backend_.PagedAttention(View(*qkv_, dtype_, rows_, model_.qkv()), 0, shape_,
                          View(*attended_, dtype_, rows_, model_.hidden));
}

void LlamaStep::Embed() {
  backend_.EmbedFromPacked(*head_, View(*residual_, DType::kF32, rows_, model_.hidden));
}

void LlamaStep::Probe() {
  CheckOk(backend_.RunStep(reinterpret_cast<uint64_t>(this) + 1, [this] {
    backend_.MatMul(*probe_, View(*normed_, dtype_, samples_, model_.hidden),
                    View(*products_, DType::kF32, samples_, kProbeDims), {});
  }));
  std::vector<float> host(static_cast<size_t>(samples_) * kProbeDims);
  backend_.Fetch(View(*products_, DType::kF32, samples_, kProbeDims), host);
  CheckOk(backend_.EndStep());
}

void LlamaStep::FillLogits() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2.5f);
  std::vector<float> logits(static_cast<size_t>(sequences_) * model_.vocab);
  for (float& logit : logits) logit = normal(random);
  CheckOk(backend_.Upload(logits.data(), logits.size() * sizeof(float), logits_->data()));
}

void LlamaStep::Sample(const SampleRow& row) {
  std::vector<SampleRow> rows(sequences_, row);
  for (int i = 0; i < sequences_; ++i) rows[i].seed = static_cast<uint64_t>(i);
  std::vector<SampledToken> results(sequences_);
  backend_.Sample(View(*logits_, DType::kF32, sequences_, model_.vocab), rows, results);
  CheckOk(backend_.EndStep());
}

double LlamaStep::weight_bytes() const {
  size_t sum = head_->bytes();
  for (const Layer& layer : layers_) {
    for (const auto* weight : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down}) {
      sum += (*weight)->bytes();
    }
  }
  return static_cast<double>(sum);
}
double LlamaStep::matmul_bytes(int rows) const {
  const double head = static_cast<double>(head_->bytes());
  return weight_bytes() - (rows <= kRowsWithLogits ? 0 : head);
}
double LlamaStep::matmul_flops(int rows) const {
  return 2.0 * rows * model_.layers * model_.layer_weights();
}
double LlamaStep::logit_flops(int rows) const { return 2.0 * rows * model_.vocab * model_.hidden; }
double LlamaStep::attention_flops(int tokens, int context) const {
  const double keys = tokens * (context - (tokens - 1) / 2.0);
  return 4.0 * model_.q_heads * model_.head_dim * keys;
}
double LlamaStep::prefill_flops(int tokens, int context) const {
  return matmul_flops(tokens) + logit_flops(1) + model_.layers * attention_flops(tokens, context);
}
double LlamaStep::attention_bytes(int sequences, int context) const {
  return 2.0 * sequences * context * model_.kv_heads * static_cast<double>(kv_.layout.row_bytes());
}
double LlamaStep::norm_bytes(int tokens) const {
  return static_cast<double>(model_.hidden) * tokens *
         static_cast<double>(sizeof(float) + SizeOf(dtype_));
}
double LlamaStep::silu_bytes(int tokens) const {
  return 3.0 * model_.ffn * tokens * static_cast<double>(SizeOf(dtype_));
}
double LlamaStep::rope_bytes(int tokens) const {
  return 2.0 * model_.qkv() * tokens * static_cast<double>(SizeOf(dtype_));
}
double LlamaStep::embed_bytes(int tokens) const {
  return static_cast<double>(model_.hidden) * tokens *
         static_cast<double>(sizeof(float) + SizeOf(dtype_));
}
double LlamaStep::probe_flops(int rows) const { return 2.0 * rows * kProbeDims * model_.hidden; }
double LlamaStep::logit_bytes(int rows) const {
  return static_cast<double>(model_.vocab) * rows * sizeof(float);
}

}  // namespace baton::kernels
