#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/backend.h"

namespace baton::kernels {

// The operations of one step of a 430 M Llama on random weights: 24 layers, hidden 1024, 16 query
// and 4 KV heads of 64, ffn 4096, vocabulary 32000, tied embeddings.
class LlamaStep {
 public:
  static constexpr int kMaxTokens = 512;

  explicit LlamaStep(Backend& backend);

  // Starts a step of `sequences`, each with its last `tokens` of `context`.
  void Begin(int sequences, int tokens, int context);
  void Forward();

  void MatMuls(int rows);
  void Norm();
  void Silu();
  void Rope();
  void Attention();
  void Embed();
  void Sample(const SampleRow& row);
  // Logits with a spread as trained models have it.
  void FillLogits();

  double weight_bytes() const;
  double matmul_flops(int rows) const;  // of the layers
  double logit_flops(int rows) const;
  double attention_flops(int tokens) const;  // of one layer and one whole prompt
  double prefill_flops(int tokens) const;
  double attention_bytes(int sequences, int context) const;  // of one layer
  double norm_bytes(int tokens) const;
  double silu_bytes(int tokens) const;
  double rope_bytes(int tokens) const;
  double embed_bytes(int tokens) const;
  double logit_bytes(int rows) const;

 private:
  struct Layer {
    std::unique_ptr<PackedWeight> qkv, o, gate_up, down;
  };
  std::unique_ptr<PackedWeight> RandomWeight(int64_t out, int64_t in);
  Matrix View(const Buffer& buffer, DType dtype, int64_t rows, int64_t cols) const;
  void RunLayer(int layer);

  Backend& backend_;
  DType dtype_;
  AttentionShape shape_;
  std::vector<float> inv_freq_;
  std::vector<Layer> layers_;
  std::unique_ptr<PackedWeight> head_;
  std::unique_ptr<Buffer> norm_weight_;
  std::unique_ptr<Buffer> residual_, normed_, qkv_, attended_, gate_up_, ffn_, logits_;
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
