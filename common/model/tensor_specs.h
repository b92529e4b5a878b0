#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/formats/model_config.h"
#include "common/formats/safetensors.h"
#include "kernels/dtype.h"

namespace baton {

inline constexpr char kEmbeddingTensor[] = "model.embed_tokens.weight";
// The output projection, where it is not tied to the embeddings.
inline constexpr char kOutputTensor[] = "lm_head.weight";

// A tensor that a checkpoint must hold.
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;  // [out, in] of a projection, [length] of a vector

  int64_t elements() const;
};

// The full name of a tensor of layer `layer`: LayerTensor(3, "mlp.up_proj.weight").
std::string LayerTensor(int32_t layer, const std::string& name);

// All tensors that a model of this shape has, in the order in which they are used.
std::vector<TensorSpec> ExpectedTensors(const ModelConfig& config);

// How many elements they have together; tied embeddings count once.
int64_t CountParameters(const ModelConfig& config);

// A shape as messages tell it, as in "[64, 128]"; in short where it has many sizes.
std::string ShapeText(const std::vector<int64_t>& shape);

// The type of a stored tensor: "F32", "BF16" or "F16". INVALID_ARGUMENT, naming the tensor, for any
// other.
absl::StatusOr<kernels::DType> TensorDType(const StoredTensor& tensor);

// Checks that every expected tensor is there with its shape and a type that loads, or, for a
// projection of a quantized model, that its parts are; and that nothing is there which the model
// would leave unused: such a tensor means that config.json describes another model.
absl::Status CheckTensors(const ModelConfig& config, const CheckpointFiles& files);

// Checks that an output projection which stands in the checkpoint though the model has none of its
// own, because of tied embeddings, is the embeddings byte by byte. The tensors have passed
// CheckTensors. Reads both where there is one, and keeps none of their pages.
absl::Status CheckTiedOutput(const ModelConfig& config, const CheckpointFiles& files);

}  // namespace baton
