#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/safetensors.h"
#include "common/model/quantize/round_weights.h"
#include "common/model/quantize/safetensors_writer.h"

namespace baton {

// A projection in the form "pack-quantized" of compressed-tensors, or in "float-quantized".
struct PackedProjection {
  std::vector<std::byte> codes;   // int32 [out, in · bits / 32], or e4m3 [out, in]
  std::vector<std::byte> scales;  // bf16 [out, in / group], or fp32 [out, 1]
  double squared_error = 0;       // sum over all weights
  double squared_weights = 0;     // likewise
};

// The tensors that stand for a projection of that shape, in the order in which they are written:
// codes, scales and, of integers, shape.
std::vector<TensorToWrite> PackedTensors(const StoredTensor& weight, const RoundingScheme& scheme);

// Rounds a projection [out, in] of F32, BF16 or F16, on several threads. INVALID_ARGUMENT, naming
// it, where a weight is no finite number.
absl::StatusOr<PackedProjection> PackProjection(const StoredTensor& weight,
                                                const RoundingScheme& scheme);

}  // namespace baton
