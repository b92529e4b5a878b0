#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/model_config.h"
#include "common/formats/safetensors.h"
#include "kernels/quantized_tensor.h"

namespace baton {

struct WeightItem;

// Reads quantized projections of a checkpoint, in whatever format they are, into the one form that
// backends take. Not thread-safe.
class QuantizedReader final {
 public:
  QuantizedReader(const ModelConfig& config, const CheckpointFiles& files)
      : config_(config), files_(files) {}

  // Returns the rows of `item`, with all their columns, which is valid until the next call. All its
  // ranges are quantized (in a GGUF file perhaps in several ways), and have passed CheckTensors.
  // INVALID_ARGUMENT, naming the tensor, for what no projection can mean: scales that are no
  // numbers, integers beyond their bits, columns without a group, parts of one weight that differ
  // in bits or groups, or whose columns lie in different orders.
  absl::StatusOr<kernels::QuantizedTensor> Read(const WeightItem& item);

 private:
  absl::StatusOr<kernels::QuantizedTensor> ReadGguf(const WeightItem& item);
  // Reads the rows of one range to those from `to_row` on.
  absl::Status ReadRange(const WeightItem& item, size_t range, int64_t to_row);
  // Finds the order of the columns that puts those of a group beside each other; empty where they
  // already are.
  absl::StatusOr<std::vector<int32_t>> OrderOf(const std::string& weight, int64_t cols) const;

  const ModelConfig& config_;
  const CheckpointFiles& files_;
  kernels::QuantizedTensor tensor_;
  std::vector<int8_t> codes_;
  std::vector<float> scales_;
  std::vector<int16_t> zero_points_;
  std::vector<float> minimums_;
  // What scales and minimums are made of, where a form has units.
  struct Steps {
    std::vector<int8_t> steps;
    std::vector<uint16_t> units;
  };
  Steps scale_steps_;
  Steps minimum_steps_;
  std::vector<int32_t> order_;
};

}  // namespace baton
