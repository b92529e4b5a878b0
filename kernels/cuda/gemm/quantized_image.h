#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/cta/quantized_data.h"
#include "kernels/quantized_tensor.h"

namespace baton::kernels::cuda {

// Where the parts of a weight of small integers lie in one piece of memory: codes, scales, then
// zero points, minimums and the order of the inputs where the weight has them, each on 16 bytes.
class QuantizedPlaces final {
 public:
  // `part` has no -1 ends. The errors are GroupOfShard's.
  static absl::StatusOr<QuantizedPlaces> Of(const QuantizedTensor& weight, const Shard& part);

  size_t bytes() const { return bytes_; }
  // The weight in memory that begins at `base`, on 16 bytes.
  QuantizedView At(const void* base) const;
  // Writes what the places are for to the host memory `base` of that many bytes, by some threads.
  void Fill(const QuantizedTensor& weight, const Shard& part, std::byte* base) const;

 private:
  void FillRow(const QuantizedTensor& weight, const Shard& part, int64_t row,
               std::byte* base) const;

  QuantizedView shape_;  // without addresses
  size_t scales_ = 0;    // offsets; 0 for a part that there is not
  size_t zero_points_ = 0;
  size_t minimums_ = 0;
  size_t input_of_ = 0;
  size_t bytes_ = 0;
};

}  // namespace baton::kernels::cuda
