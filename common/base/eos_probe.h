#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"

namespace baton {

inline constexpr int32_t kMaxEosProbeDims = 64;

// Linear directions on a model's hidden state, which a worker computes for each row that draws a
// token:
//
//   product[d] = sum over h of directions[d, h] * state[h] + biases[d]
//
// `state` is what the output projection reads, the last layer's residual stream after the model's
// final norm. With `layer` it is the residual stream after that layer, divided by the square root
// of its mean square plus the eps of the model's norms. A backend computes with directions and
// states that it has rounded to its compute dtype, and sums in fp32.
struct EosProbe {
  int32_t hidden = 0;             // width of the model's residual stream
  int32_t dims = 0;               // directions, 1 to kMaxEosProbeDims
  std::optional<int32_t> layer;   // from 0
  std::vector<float> directions;  // [dims, hidden]
  std::vector<float> biases;      // [dims], or empty for zeros
};

// INVALID_ARGUMENT, saying what was found, for sizes that do not agree or are out of bounds and for
// values that are not finite. Whether a probe fits a model is another question.
absl::Status CheckEosProbe(const EosProbe& probe);

// Tells probes apart whose products mean different things: by sizes, layer, directions and biases.
// Never 0, so that 0 can say that there is none.
uint64_t EosProbeDigest(const EosProbe& probe);

}  // namespace baton
