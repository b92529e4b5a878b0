#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/formats/model_config.h"

namespace baton {

// Writes a safetensors file with all tensors of `config` in its dtype. Projections and embeddings
// are uniform with a standard deviation of 1/sqrt(in), so that activations keep their size and
// logits differ by about 1; norm weights lie around 1 and biases around 0. Element i of tensor t is
// a pure function of (seed, t, i).
absl::Status WriteRandomWeights(const ModelConfig& config, uint64_t seed, const std::string& path);

}  // namespace baton
