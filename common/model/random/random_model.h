#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace baton {

// The shape of a model with random weights, which is served like any other, for tests and
// benchmarks.
struct RandomModelSpec {
  std::string arch = "llama";  // llama | mistral | qwen2 | qwen3
  int32_t layers = 2;
  int32_t hidden = 64;
  int32_t heads = 4;
  int32_t kv_heads = 2;
  int32_t head_dim = 16;
  int32_t ffn = 128;
  int32_t vocab = 258;             // 256 bytes, BOS and EOS; further ids have no text
  std::string dtype = "bfloat16";  // float32 | bfloat16 | float16
  uint64_t seed = 0;
  int32_t max_positions = 4096;
  bool tied_embeddings = false;
};

// Writes config.json, generation_config.json, tokenizer.json, tokenizer_config.json and
// model.safetensors into `dir`, which must be new or empty. A byte is a token. The same spec gives
// the same bytes on every machine.
absl::Status WriteRandomModel(const RandomModelSpec& spec, const std::string& dir);

}  // namespace baton
