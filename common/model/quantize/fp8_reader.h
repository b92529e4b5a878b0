#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/formats/model_config.h"
#include "common/formats/safetensors.h"
#include "kernels/dtype.h"
#include "kernels/tensor_view.h"

namespace baton {

struct WeightItem;

// Whether projections stay in e4m3, on a device that has products of it, where these are as fine as
// the checkpoint asks. Only arithmetic in 16 bits has them.
bool MayStayFp8(const ModelConfig& config, kernels::DType compute_dtype);

// The numbers of a tensor of scales. INVALID_ARGUMENT, naming it, where one is not finite and above
// 0, or not 0 either where `zeros` may be.
absl::StatusOr<std::vector<float>> ReadScales(const StoredTensor& tensor, bool zeros = false);

// Reads projections of e4m3, as floats or as they are. All ranges of an item are of e4m3 and have
// passed CheckTensors. INVALID_ARGUMENT, naming the tensor, for a code that is no number and for a
// scale that is not finite and above 0, or 0 where all its codes are. Not thread-safe.
class Fp8Reader final {
 public:
  Fp8Reader(const ModelConfig& config, const CheckpointFiles& files)
      : config_(config), files_(files) {}

  // Writes the item's whole rows to `out`, dense: code times scale in fp32, rounded to `dtype`.
  absl::Status WriteValues(const WeightItem& item, kernels::DType dtype, std::byte* out) const;

  // Returns the item's whole rows as they are stored, each with its scale, and the largest of the
  // scales that the ranges have for their inputs. Valid until the next call. The scales are those
  // of rows or of whole weights.
  absl::StatusOr<kernels::HostTensor> Codes(const WeightItem& item);

 private:
  struct Parts;
  // Finds the parts of a range and checks its scales.
  absl::StatusOr<Parts> PartsOf(const WeightItem& item, size_t range) const;

  const ModelConfig& config_;
  const CheckpointFiles& files_;
  std::vector<float> scales_;
  std::vector<uint8_t> codes_;  // of several ranges
};

}  // namespace baton
