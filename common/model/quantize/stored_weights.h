#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/model_config.h"
#include "common/formats/safetensors.h"
#include "common/model/quantize/quantize_checkpoint.h"

namespace baton {

// A weight of the model, as a checkpoint stores it.
struct StoredWeight {
  std::string name;
  std::optional<int32_t> layer;  // empty for those of no layer
  // QuantizationConfig::name() for projections that are quantized, the dtype ("BF16") otherwise,
  // and in a GGUF file.
  std::string kind;
  int64_t bytes = 0;  // with scales, zero points and whatever else stands for it
};

// The weights of a checkpoint that has passed CheckTensors, in the order in which they are used.
std::vector<StoredWeight> StoredWeights(const ModelConfig& config, const CheckpointFiles& files);

// Weights that a checkpoint stores in one way.
struct StoredKind {
  int64_t weights = 0;  // matrices and vectors of the model
  int64_t bytes = 0;
};

// The weights by their kinds.
std::map<std::string, StoredKind> StoredKinds(std::span<const StoredWeight> weights);

// How far the quantized projections of a checkpoint are from those of the model in `original_dir`,
// in the order in which they are used. INVALID_ARGUMENT where that is another model, or is
// quantized itself. Reads both completely.
absl::StatusOr<std::vector<RoundedProjection>> CompareProjections(const ModelConfig& config,
                                                                  const CheckpointFiles& files,
                                                                  const std::string& original_dir);

}  // namespace baton
