#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/model_config.h"
#include "common/formats/safetensors.h"
#include "common/model/quantize/quantize_checkpoint.h"

namespace baton {

// Weights that a checkpoint stores in one way.
struct StoredKind {
  int64_t weights = 0;  // matrices and vectors of the model
  int64_t bytes = 0;
};

// How the weights of a checkpoint that has passed CheckTensors are stored: by
// QuantizationConfig::name() for projections that are quantized, by their dtype ("BF16") otherwise,
// and in a GGUF file.
std::map<std::string, StoredKind> StoredKinds(const ModelConfig& config,
                                              const CheckpointFiles& files);

// How far the quantized projections of a checkpoint are from those of the model in `original_dir`,
// in the order in which they are used. INVALID_ARGUMENT where that is another model, or is
// quantized itself. Reads both completely.
absl::StatusOr<std::vector<RoundedProjection>> CompareProjections(const ModelConfig& config,
                                                                  const CheckpointFiles& files,
                                                                  const std::string& original_dir);

}  // namespace baton
