#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/formats/model_config.h"
#include "common/formats/quantization_config.h"
#include "common/formats/safetensors.h"
#include "common/model/tensor_specs.h"

namespace baton {

// Whether that is the weight of a projection, which may be quantized.
bool IsProjection(std::string_view weight);

// Whether the projection `weight`, as in "model.layers.0.mlp.up_proj.weight", is stored as
// integers or in e4m3: the model is quantized, and no tensor of that name holds floating-point
// numbers. Which modules a checkpoint left as they were is seen by that alone. False for a module
// that its description gives no kind, or several.
bool IsQuantized(const ModelConfig& config, const CheckpointFiles& files, std::string_view weight);

// The stored tensors that stand for the weight, which has passed CheckTensors: itself, or the parts
// of one that is quantized, without zero points that mean nothing because it is symmetric.
std::vector<const StoredTensor*> StoredPartsOf(const ModelConfig& config,
                                               const CheckpointFiles& files,
                                               const std::string& weight);

// The stored scale of the keys ('k') or values ('v') of a layer, by whichever of its names it has;
// null where there is none.
const StoredTensor* FindKvScale(const CheckpointFiles& files, int32_t layer, char kind);
// Whether a tensor of that name is such a scale.
bool NamesKvScale(std::string_view name);
// Checks that every layer has both, one number each.
absl::Status CheckKvScales(const ModelConfig& config, const CheckpointFiles& files);

// Checks that a quantized projection has its parts, with the shapes and types that the format
// demands, and that what they say of the weight agrees with `quantization`, which is its kind.
absl::Status CheckQuantizedParts(const QuantizationConfig& quantization,
                                 const CheckpointFiles& files, const TensorSpec& weight);

// The names of the parts of a quantized projection. A format that has no such part has an empty
// name for it.
struct PartNames {
  std::string codes;
  std::string scales;
  std::string zero_points;
  std::string group_of;     // the group of each column; optional unless it tells the groups
  std::string shape;        // of the weight; optional
  std::string input_scale;  // of inputs that are rounded; optional unless they are static

  static PartNames Of(QuantizationConfig::Format format, const std::string& weight);
  std::vector<std::string> all() const;
};

}  // namespace baton
