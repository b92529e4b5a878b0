#include "kernels/bench/llama_step.h"

#include <cmath>
#include <random>

#include "common/base/check.h"
#include "kernels/float_convert.h"

namespace baton::kernels {
namespace {

constexpr int kLayers = 24;
constexpr int kHidden = 1024;
constexpr int kHeadDim = 64;
constexpr int kQHeads = 16;
constexpr int kKvHeads = 4;
constexpr int kQkv = (kQHeads + 2 * kKvHeads) * kHeadDim;
constexpr int kFfn = 4096;
constexpr int kVocab = 32000;
constexpr int kBlock = 16;
constexpr int kMaxBlocks = 32 * 256 / kBlock + 512 / kBlock;
constexpr double kLayerWeights =
    double{kHidden} * kQkv + double{kHidden} * kHidden + 3.0 * kHidden * kFfn;

std::unique_ptr<Buffer> Take(absl::StatusOr<std::unique_ptr<Buffer>> buffer) {
  BATON_CHECK(buffer.ok()) << buffer.status().ToString();
  return std::move(buffer).value();
}

void CheckOk(const absl::Status& status) { BATON_CHECK(status.ok()) << status.ToString(); }

}  // namespace

LlamaStep::LlamaStep(Backend& backend)
    : backend_(backend),
      dtype_(backend.info().compute_dtype),
      shape_{.q_heads = kQHeads,
             .kv_heads = kKvHeads,
             .head_dim = kHeadDim,
             .scale = 1.0f / std::sqrt(static_cast<float>(kHeadDim))} {
  for (int i = 0; i < kHeadDim / 2; ++i) {
    inv_freq_.push_back(std::pow(10000.0f, -2.0f * static_cast<float>(i) / kHeadDim));
  }
  for (int i = 0; i < kLayers; ++i) {
    layers_.push_back({RandomWeight(kQkv, kHidden), RandomWeight(kHidden, kHidden),
                       RandomWeight(2 * kFfn, kHidden), RandomWeight(kHidden, kFfn)});
  }
  head_ = RandomWeight(kVocab, kHidden);
  const std::vector<float> ones(kHidden, 1.0f);
  norm_weight_ = Take(backend_.UploadVector({ones.data(), DType::kF32, 1, kHidden}));
  const size_t size = SizeOf(dtype_);
  residual_ = Take(backend_.Allocate(size_t{kMaxTokens} * kHidden * sizeof(float)));
  normed_ = Take(backend_.Allocate(kMaxTokens * kHidden * size));
  qkv_ = Take(backend_.Allocate(kMaxTokens * kQkv * size));
  attended_ = Take(backend_.Allocate(kMaxTokens * kHidden * size));
  gate_up_ = Take(backend_.Allocate(kMaxTokens * 2 * kFfn * size));
  ffn_ = Take(backend_.Allocate(kMaxTokens * kFfn * size));
  logits_ = Take(backend_.Allocate(size_t{64} * kVocab * sizeof(float)));
  for (Buffer* buffer : {residual_.get(), normed_.get(), qkv_.get(), attended_.get(),
                         gate_up_.get(), ffn_.get(), logits_.get()}) {
    CheckOk(backend_.Zero(*buffer));
  }
  kv_.layout = {.dtype = dtype_,
                .block_size = kBlock,
                .layers = kLayers,
                .kv_heads = kKvHeads,
                .head_dim = kHeadDim};
  kv_.num_blocks = kMaxBlocks;
  arena_ = Take(backend_.Allocate(kv_.layout.block_bytes() * kMaxBlocks));
  kv_.arena = static_cast<std::byte*>(arena_->data());
  CheckOk(backend_.Zero(*arena_));
  const Layer& layer = layers_[0];
  const MatMulUse uses[] = {
      {.weight = layer.qkv.get(), .out = dtype_, .max_rows = kMaxTokens},
      {.weight = layer.o.get(), .accumulate = true, .max_rows = kMaxTokens},
      {.weight = layer.gate_up.get(), .out = dtype_, .max_rows = kMaxTokens},
      {.weight = layer.down.get(), .accumulate = true, .max_rows = kMaxTokens},
      {.weight = head_.get(), .max_rows = 64},
  };
  CheckOk(backend_.Prepare({.products = uses,
                            .attentions = {&shape_, 1},
                            .rope = RopeShape{inv_freq_, 1.0f},
                            .max_tokens = kMaxTokens,
                            .max_samples = 64,
                            .vocab = kVocab}));
}

std::unique_ptr<PackedWeight> LlamaStep::RandomWeight(int64_t out, int64_t in) {
  // Cheap numbers around 0 of the size that keeps activations near 1.
  std::vector<uint16_t> values(static_cast<size_t>(out * in));
  uint32_t state = 12345;
  for (uint16_t& value : values) {
    state = state * 1664525 + 1013904223;
    const float uniform = static_cast<float>(state >> 8) * 0x1.0p-24f - 0.5f;
    value = Bf16FromFloat(uniform * 0.05f);
  }
  auto packed = backend_.Pack({values.data(), DType::kBF16, out, in}, {});
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
  const Matrix residual = View(*residual_, DType::kF32, rows_, kHidden);
  const Matrix normed = View(*normed_, dtype_, rows_, kHidden);
  const Matrix qkv = View(*qkv_, dtype_, rows_, kQkv);
  const Matrix attended = View(*attended_, dtype_, rows_, kHidden);
  const Matrix gate_up = View(*gate_up_, dtype_, rows_, 2 * kFfn);
  const Matrix ffn = View(*ffn_, dtype_, rows_, kFfn);
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
  Embed();
  for (int layer = 0; layer < kLayers; ++layer) RunLayer(layer);
  Norm();
  const Matrix last = View(*attended_, dtype_, samples_, kHidden);
  backend_.GatherSampled(View(*normed_, dtype_, rows_, kHidden), last);
  backend_.MatMul(*head_, last, View(*logits_, DType::kF32, samples_, kVocab), {});
  Sample({});
}

void LlamaStep::MatMuls(int rows) {
  const Matrix residual = View(*residual_, DType::kF32, rows, kHidden);
  const Matrix normed = View(*normed_, dtype_, rows, kHidden);
  for (const Layer& weights : layers_) {
    backend_.MatMul(*weights.qkv, normed, View(*qkv_, dtype_, rows, kQkv), {});
    backend_.MatMul(*weights.o, normed, residual, {.accumulate = true});
    backend_.MatMul(*weights.gate_up, normed, View(*gate_up_, dtype_, rows, 2 * kFfn), {});
    backend_.MatMul(*weights.down, View(*ffn_, dtype_, rows, kFfn), residual, {.accumulate = true});
  }
  if (rows <= 8) {
    backend_.MatMul(*head_, normed, View(*logits_, DType::kF32, rows, kVocab), {});
  }
}

void LlamaStep::Norm() {
  backend_.RmsNorm(View(*residual_, DType::kF32, rows_, kHidden), *norm_weight_, 1e-5f,
                   View(*normed_, dtype_, rows_, kHidden));
}

void LlamaStep::Silu() {
  backend_.SiluMul(View(*gate_up_, dtype_, rows_, 2 * kFfn), View(*ffn_, dtype_, rows_, kFfn));
}

void LlamaStep::Rope() {
  backend_.RopeAndStoreKv(View(*qkv_, dtype_, rows_, kQkv), 0, shape_, {inv_freq_, 1.0f}, {});
}

void LlamaStep::Attention() {
  backend_.PagedAttention(View(*qkv_, dtype_, rows_, kQkv), 0, shape_,
                          View(*attended_, dtype_, rows_, kHidden));
}

void LlamaStep::Embed() {
  backend_.EmbedFromPacked(*head_, View(*residual_, DType::kF32, rows_, kHidden));
}

void LlamaStep::FillLogits() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2.5f);
  std::vector<float> logits(static_cast<size_t>(sequences_) * kVocab);
  for (float& logit : logits) logit = normal(random);
  CheckOk(backend_.Upload(logits.data(), logits.size() * sizeof(float), logits_->data()));
}

void LlamaStep::Sample(const SampleRow& row) {
  std::vector<SampleRow> rows(sequences_, row);
  for (int i = 0; i < sequences_; ++i) rows[i].seed = static_cast<uint64_t>(i);
  std::vector<SampledToken> results(sequences_);
  backend_.Sample(View(*logits_, DType::kF32, sequences_, kVocab), rows, results);
  CheckOk(backend_.EndStep());
}

double LlamaStep::weight_bytes() const {
  return (kLayers * kLayerWeights + double{kVocab} * kHidden) * static_cast<double>(SizeOf(dtype_));
}
double LlamaStep::matmul_flops(int rows) const { return 2.0 * rows * kLayers * kLayerWeights; }
double LlamaStep::logit_flops(int rows) const { return 2.0 * rows * kVocab * kHidden; }
double LlamaStep::attention_flops(int tokens) const {
  return 4.0 * kQHeads * kHeadDim * tokens * (tokens + 1) / 2;
}
double LlamaStep::prefill_flops(int tokens) const {
  return matmul_flops(tokens) + logit_flops(1) + kLayers * attention_flops(tokens);
}
double LlamaStep::attention_bytes(int sequences, int context) const {
  return 2.0 * sequences * context * kKvHeads * kHeadDim * static_cast<double>(SizeOf(dtype_));
}
double LlamaStep::norm_bytes(int tokens) const {
  return double{kHidden} * tokens * static_cast<double>(sizeof(float) + SizeOf(dtype_));
}
double LlamaStep::silu_bytes(int tokens) const {
  return 3.0 * kFfn * tokens * static_cast<double>(SizeOf(dtype_));
}
double LlamaStep::rope_bytes(int tokens) const {
  return 2.0 * kQkv * tokens * static_cast<double>(SizeOf(dtype_));
}
double LlamaStep::embed_bytes(int tokens) const {
  return double{kHidden} * tokens * static_cast<double>(sizeof(float) + SizeOf(dtype_));
}
double LlamaStep::logit_bytes(int rows) const { return double{kVocab} * rows * sizeof(float); }

}  // namespace baton::kernels
