#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/formats/model_config.h"
#include "kernels/dtype.h"

namespace baton {

// What the figures of a Footprint are computed for.
struct FootprintQuery {
  int32_t tokens = 1024;                      // length of the prompt, and of a running sequence
  int64_t memory_bytes = int64_t{512} << 20;  // of KV cache
  kernels::DType compute_dtype = kernels::DType::kBF16;
  kernels::DType kv_dtype = kernels::DType::kBF16;
  int32_t block_size = 16;  // tokens
};

// What a model of this shape costs, from its config.json alone.
struct Footprint {
  int64_t parameters = 0;
  // Per dtype: float32, bfloat16, float16; of a quantized model also as its projections are stored,
  // by QuantizationConfig::name() and with all else in the compute dtype.
  std::map<std::string, int64_t> weight_bytes;
  int64_t kv_bytes_per_token = 0;     // 2 · layers · kv_heads · KvLayout::row_bytes
  int64_t activation_peak_bytes = 0;  // buffers of a step of `tokens` tokens that draws one
  // Floating point operations of the projections and of attention over what each token sees; a
  // multiplication and an addition count as two. Every token passes all layers, and the last token
  // the output projection too. (The transformer leaves out what no sampled token reads: see
  // LastLayerTailFlops.)
  double prefill_flops = 0;      // of a prompt of `tokens`
  double decode_step_flops = 0;  // of the token after `tokens` others
  int64_t max_concurrency = 0;   // sequences of `tokens` whose KV blocks fit into the memory
};

// What an element of the layers' projections takes on average where these are integers, with its
// part of the scale and the zero point of its group; one that no group of modules names is of
// `compute_dtype`.
double BytesPerWeight(const ModelConfig& config, kernels::DType compute_dtype);
// Likewise of an output projection that config.json describes as integers; of any other, the size
// of `compute_dtype`.
double OutputBytesPerWeight(const ModelConfig& config, kernels::DType compute_dtype);

// The elements of the projections of all layers.
int64_t CountProjectionParameters(const ModelConfig& config);

// The operations of one token in the last layer, from the output of attention on. They are not
// executed for tokens that do not sample.
double LastLayerTailFlops(const ModelConfig& config);

// The operations that are executed for a prompt of `tokens` in one step: only its last token passes
// the last layer's tail.
double ExecutedPrefillFlops(const ModelConfig& config, int32_t tokens);

Footprint ComputeFootprint(const ModelConfig& config, const FootprintQuery& query);

}  // namespace baton
