#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/model_config.h"
#include "common/formats/safetensors.h"

namespace baton {

// What the keys and the values of one layer are divided by before they become codes of e4m3.
struct KvScales {
  float k = 1;
  float v = 1;
};

// The scales of every layer of a checkpoint that has passed CheckTensors; 1 for one that brings
// none. INVALID_ARGUMENT, naming the tensor, for one that is not finite and above 0.
absl::StatusOr<std::vector<KvScales>> ReadKvScales(const ModelConfig& config,
                                                   const CheckpointFiles& files);

}  // namespace baton
