#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/quantize/round_weights.h"

namespace baton {

// What QuantizeCheckpoint makes of a model's weights.
struct CheckpointRounding {
  RoundingScheme layers;  // of their projections
  // Rounds the output projection, too: to integers of 8 bits in groups as those of the layers,
  // which are integers then. One that is tied to the embeddings becomes a weight of its own.
  bool output = false;
};

// What QuantizeCheckpoint did to one projection.
struct RoundedProjection {
  std::string name;
  // The root of the sum of squared errors over that of squared weights.
  double relative_error = 0;
};

struct QuantizeReport {
  int64_t bytes_before = 0;  // of all tensors
  int64_t bytes_after = 0;
  std::vector<RoundedProjection> projections;
};

// Is told how many bytes of the original have been read, and how many there are.
using QuantizeProgress = std::function<void(int64_t done, int64_t total)>;

// Writes the model of `in`, a Hugging Face directory, to the new directory `out`, with the
// projections of its layers rounded, in the form "pack-quantized" of compressed-tensors for
// integers and in "float-quantized" for e4m3. Embeddings, norms, biases and, unless it is rounded,
// the output projection stay as they are. One tensor is in memory at a time; `out` appears when it
// is whole.
// FAILED_PRECONDITION where `out` is there already or the model is quantized; INVALID_ARGUMENT
// where a row is no multiple of the group. `progress` may be null.
absl::StatusOr<QuantizeReport> QuantizeCheckpoint(const std::string& in, const std::string& out,
                                                  const CheckpointRounding& rounding,
                                                  const QuantizeProgress& progress);

}  // namespace baton
