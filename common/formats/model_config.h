#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/formats/quantization_config.h"

namespace baton {

enum class ModelFamily { kLlama, kMistral, kQwen2, kQwen3 };

// The rotary embedding: its base frequency, and the rule that stretches it to longer contexts.
struct RopeConfig {
  enum class Scaling { kNone, kLinear, kLlama3, kYarn };
  Scaling scaling = Scaling::kNone;
  double theta = 10000;
  double factor = 1;               // linear, llama3, yarn
  int64_t original_positions = 0;  // llama3, yarn: context length before the stretch
  double low_freq_factor = 1;      // llama3
  double high_freq_factor = 4;     // llama3
  double beta_fast = 32;           // yarn
  double beta_slow = 1;            // yarn
  double attention_factor = 1;     // yarn: multiplies cos and sin
  std::vector<float> divisors;     // [head_dim / 2] of the frequencies; none: all are 1

  bool operator==(const RopeConfig&) const = default;
};

// Shape and arithmetic of a decoder-only transformer, as its config.json states it. Every value is
// within the bounds that the rest of the code relies on.
struct ModelConfig {
  ModelFamily family = ModelFamily::kLlama;
  std::string architecture;  // "LlamaForCausalLM"

  int32_t layers = 0;
  int32_t hidden = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;  // divides heads
  int32_t head_dim = 0;  // multiple of 8, at most 256
  int32_t ffn = 0;
  int32_t vocab = 0;
  int32_t max_positions = 0;

  double rms_eps = 1e-6;
  bool tied_embeddings = false;
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;  // RMS norm over each q and k head before the rotation
  RopeConfig rope;
  std::vector<int32_t> windows;  // [layers] 0 = full attention; w: position p sees (p - w, p]

  std::optional<QuantizationConfig> quantization;  // of the projections, if they are
  std::string dtype;  // of the checkpoint: float32, bfloat16, float16; "" when not stated
  std::vector<TokenId> eos_ids;

  int32_t q_size() const { return heads * head_dim; }
  int32_t kv_size() const { return kv_heads * head_dim; }
};

// The architectures that load, for messages: "LlamaForCausalLM, …".
std::string SupportedArchitectures();

// Reads `json_text` in the form that transformers 4 or 5 writes; `where` names it in messages. What
// is absent takes the default that transformers has for the architecture. INVALID_ARGUMENT for
// anything that this code would compute differently from transformers.
absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view json_text, const std::string& where);

// Reads config.json of the directory `model`, or the metadata of the GGUF file `model`. NOT_FOUND
// when there is none.
absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& model);

}  // namespace baton
