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

// A tensor that a checkpoint must hold.
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;  // [out, in] of a projection, [length] of a vector

  int64_t elements() const;
};

// Names inside layer `layer`: LayerTensor(3, "mlp.up_proj.weight").
std::string LayerTensor(int32_t layer, const std::string& name);

// All tensors of a model of this shape, in the order in which they are used.
std::vector<TensorSpec> ExpectedTensors(const ModelConfig& config);

// Sum of their elements; tied embeddings count once.
int64_t CountParameters(const ModelConfig& config);

// "F32", "BF16", "F16"; INVALID_ARGUMENT, naming the tensor, for any other type.
absl::StatusOr<kernels::DType> TensorDType(const StoredTensor& tensor);

// Every expected tensor is there with its shape and a type that loads, and nothing is there that
// the model would leave unused: a tensor without a place means that config.json describes another
// model.
absl::Status CheckTensors(const ModelConfig& config, const CheckpointFiles& files);

}  // namespace baton
