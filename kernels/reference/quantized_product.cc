#include "kernels/reference/quantized_product.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "kernels/rounded_inputs.h"

namespace baton::kernels::reference {

QuantizedProduct::QuantizedProduct(const QuantizedTensor& weight, const Shard& part, int64_t group)
    : in_(part.in_end - part.in_begin),
      group_(group),
      groups_((in_ + group - 1) / group),
      block_(InputBlock(group)),
      input_of_(static_cast<size_t>(in_)) {
  for (int64_t row = part.out_begin; row < part.out_end; ++row) {
    for (int64_t k = 0; k < groups_ * group; ++k) {
      const int64_t col = std::min(part.in_begin + k, part.in_end - 1);
      const int64_t index = row * weight.groups() + col / weight.group;
      const int zero = weight.zero_points != nullptr ? 0 : weight.zero_point;
      const int code = weight.codes[row * weight.cols + col] - zero;
      codes_.push_back(static_cast<int16_t>(k < in_ ? code : 0));
      if (k % group != 0) continue;
      scales_.push_back(weight.scales[index]);
      const float minimum = weight.minimums != nullptr ? weight.minimums[index] : 0;
      if (weight.zero_points != nullptr) {
        minimums_.push_back(
            std::fma(static_cast<float>(weight.zero_points[index]), weight.scales[index], minimum));
      } else if (weight.minimums != nullptr) {
        minimums_.push_back(minimum);
      }
    }
  }
  std::iota(input_of_.begin(), input_of_.end(), 0);
  if (weight.input_of != nullptr) std::copy_n(weight.input_of, in_, input_of_.begin());
}

QuantizedProduct::RoundedRow QuantizedProduct::Round(std::span<const float> x) const {
  std::vector<float> row(static_cast<size_t>(groups_ * group_));
  for (int64_t k = 0; k < in_; ++k) row[k] = x[input_of_[k]];
  RoundedRow rounded;
  for (int64_t begin = 0; begin < groups_ * group_; begin += block_) {
    int32_t largest = 0;
    for (int64_t k = begin; k < begin + block_; ++k) {
      largest = std::max(largest, std::bit_cast<int32_t>(std::fabs(row[k])));
    }
    const InputScale scale = InputScale::Of(largest);
    rounded.scales.push_back(scale.scale);
    for (int64_t k = begin; k < begin + block_; ++k) {
      rounded.codes.push_back(
          scale.rounds ? static_cast<int8_t>(std::nearbyint(row[k] * scale.factor)) : int8_t{0});
    }
  }
  return rounded;
}

float QuantizedProduct::Element(const RoundedRow& x, int64_t row) const {
  float total = 0;
  for (int64_t group = 0; group < groups_; ++group) {
    float products = 0;
    float inputs = 0;
    for (int64_t begin = group * group_; begin < (group + 1) * group_; begin += block_) {
      int32_t product = 0;
      int32_t input = 0;
      for (int64_t k = begin; k < begin + block_; ++k) {
        product += codes_[row * groups_ * group_ + k] * x.codes[k];
        input += x.codes[k];
      }
      const float scale = x.scales[begin / block_];
      products = std::fma(static_cast<float>(product), scale, products);
      inputs = std::fma(static_cast<float>(input), scale, inputs);
    }
    total = std::fma(products, scales_[row * groups_ + group], total);
    if (!minimums_.empty()) total = std::fma(-minimums_[row * groups_ + group], inputs, total);
  }
  return total;
}

void QuantizedProduct::Multiply(std::span<const float> x, std::span<float> out) const {
  const RoundedRow rounded = Round(x);
  for (size_t row = 0; row < out.size(); ++row) {
    out[row] = Element(rounded, static_cast<int64_t>(row));
  }
}

}  // namespace baton::kernels::reference
