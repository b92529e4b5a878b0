#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/backend.h"

namespace baton::kernels {

// The shape of a Llama with tied embeddings, and how large its steps get.
struct LlamaShape {
  int layers = 0;
  int hidden = 0;
  int head_dim = 0;
  int q_heads = 0;
  int kv_heads = 0;
  int ffn = 0;
  int vocab = 0;
  int max_tokens = 0;  // of a step
  int kv_tokens = 0;   // of all sequences

  int qkv() const { return (q_heads + 2 * kv_heads) * head_dim; }
  double layer_weights() const {
    const double h = hidden;
    return h * qkv() + h * q_heads * head_dim + 3.0 * h * ffn;
  }
};

// Takes seconds, to see that everything runs.
inline constexpr LlamaShape kTinyLlama = {.layers = 2,
                                          .hidden = 256,
                                          .head_dim = 32,
                                          .q_heads = 8,
                                          .kv_heads = 4,
                                          .ffn = 512,
                                          .vocab = 2048,
                                          .max_tokens = 128,
                                          .kv_tokens = 8 * 64 + 128};
// Has 430 M parameters, for a CPU.
inline constexpr LlamaShape kSmallLlama = {.layers = 24,
                                           .hidden = 1024,
                                           .head_dim = 64,
                                           .q_heads = 16,
                                           .kv_heads = 4,
                                           .ffn = 4096,
                                           .vocab = 32000,
                                           .max_tokens = 512,
                                           .kv_tokens = 32 * 256 + 512};
// Is Llama-3.1-8B, for a GPU.
inline constexpr LlamaShape kLlama8B = {.layers = 32,
                                        .hidden = 4096,
                                        .head_dim = 128,
                                        .q_heads = 32,
                                        .kv_heads = 8,
                                        .ffn = 14336,
                                        .vocab = 128256,
                                        .max_tokens = 8192,
                                        .kv_tokens = 64 * 1024};

// How the projections of layers are stored: as integers of `bits` in groups of `group` columns with
// scales in bfloat16, or as GGUF's K types.
struct StoredIntegers {
  int bits = 0;  // 4 or 8; 0: in the compute dtype
  int group = 128;
  int unit_groups = 0;  // whose scales and minimums share a unit; 0: these have none
  bool minimums = false;
};

// The steps of such a model on random weights, whole or operation by operation, for bench_kernels.
class LlamaStep {
 public:
  // The KV cache is in `kv_dtype`, or in the compute dtype.
  LlamaStep(Backend& backend, const LlamaShape& model, const StoredIntegers& stored = {},
            std::optional<DType> kv_dtype = std::nullopt);

  // Starts a step of `sequences`, each with its last `tokens` of `context`.
  void Begin(int sequences, int tokens, int context);
  void Forward();
  // Waits for what was launched since Begin, where nothing was sampled.
  void Finish();

  void MatMuls(int rows);
  void Norm();
  void Silu();
  void Rope();
  void Attention();
  void Embed();
  void Sample(const SampleRow& row);
  // The products of a probe of kProbeDims directions, for each row that samples, on the host.
  void Probe();
  // Writes logits that spread as far as those of trained models do.
  void FillLogits();

  static constexpr int kProbeDims = 64;
  static constexpr int kBlock = 16;  // tokens

  double weight_bytes() const;
  double matmul_bytes(int rows) const;  // the weights that MatMuls(rows) reads
  double matmul_flops(int rows) const;  // of the layers
  double logit_flops(int rows) const;
  // Of the last `tokens` of a prompt of `context`; of one layer, and of a step.
  double attention_flops(int tokens, int context) const;
  double prefill_flops(int tokens, int context) const;
  double attention_bytes(int sequences, int context) const;  // of one layer
  double norm_bytes(int tokens) const;
  double silu_bytes(int tokens) const;
  double rope_bytes(int tokens) const;
  double embed_bytes(int tokens) const;
  double logit_bytes(int rows) const;
  double probe_flops(int rows) const;

 private:
  struct Layer {
    std::unique_ptr<PackedWeight> qkv, o, gate_up, down;
  };
  // Extends codes_ to `count` codes of the random values: a layer's weights are billions, and every
  // weight starts with the same ones.
  void MakeCodes(size_t count, float most, float scale);
  std::unique_ptr<PackedWeight> RandomIntegers(int64_t out, int64_t in);
  std::unique_ptr<PackedWeight> RandomWeight(int64_t out, int64_t in, bool keep_precision = false);
  Matrix View(const Buffer& buffer, DType dtype, int64_t rows, int64_t cols) const;
  void RunLayer(int layer);

  Backend& backend_;
  const LlamaShape model_;
  const StoredIntegers stored_;
  DType dtype_;
  AttentionShape shape_;
  std::vector<float> inv_freq_;
  std::vector<uint16_t> random_values_;
  std::vector<int8_t> codes_;
  uint32_t random_state_ = 0;
  std::vector<Layer> layers_;
  std::unique_ptr<PackedWeight> head_, probe_;
  std::unique_ptr<Buffer> norm_weight_;
  std::unique_ptr<Buffer> residual_, normed_, qkv_, attended_, gate_up_, ffn_, logits_, products_;
  std::unique_ptr<Buffer> arena_;
  PagedKv kv_;

  int sequences_ = 0;
  int rows_ = 0;  // with padding
  int samples_ = 0;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> positions_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<StepLayout::Sequence> layout_;
  std::vector<int32_t> last_rows_;
};

}  // namespace baton::kernels
