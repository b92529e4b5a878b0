#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/quantized_tensor.h"

namespace baton::kernels::reference {

// The product by a part of a weight of small integers as host backends compute it, in scalar code
// that rounds where theirs do, and nowhere else: the same bits. See kernels/rounded_inputs.h for
// what becomes of the inputs. With q and x the codes of a weight and of inputs, w and s their
// scales, and m what comes off every number of a group, its minimum plus its zero point times w, an
// element is the sum, over groups in ascending order, of w times (the sum over the blocks of the
// group of s times the exact sum of q * x) - m times (the same with the sum of x). A zero point
// that all groups share is taken off q.
class QuantizedProduct {
 public:
  // `part` has no -1 ends, and `group` is the one that GroupOfShard says.
  QuantizedProduct(const QuantizedTensor& weight, const Shard& part, int64_t group);

  // out [rows of the part] = the products of a row of inputs [columns of the part].
  void Multiply(std::span<const float> x, std::span<float> out) const;

 private:
  struct RoundedRow {
    std::vector<int8_t> codes;  // [groups * group]
    std::vector<float> scales;  // [blocks]
  };
  RoundedRow Round(std::span<const float> x) const;
  float Element(const RoundedRow& x, int64_t row) const;

  int64_t in_;
  int64_t group_;
  int64_t groups_;  // of a row
  int64_t block_;
  std::vector<int16_t> codes_;     // [rows, groups * group],
  std::vector<float> scales_;      // [rows, groups]
  std::vector<float> minimums_;    // the same, or empty
  std::vector<int32_t> input_of_;  // [in]
};

}  // namespace baton::kernels::reference
