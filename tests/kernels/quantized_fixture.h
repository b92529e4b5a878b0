#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/float_convert.h"
#include "kernels/quantized_tensor.h"

namespace baton::kernels {

// The shape of a random weight of small integers.
struct QuantizedShape {
  int bits = 8;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t group = 32;
  bool zero_points = false;
  DType scale_dtype = DType::kBF16;
  bool shuffled = false;  // columns take their inputs in another order
  bool minimums = false;
  int16_t zero_point = 0;  // of all groups, without zero_points
};

// A random weight with its memory. All codes of its bits occur, and scales are exact in their type.
class RandomQuantized {
 public:
  explicit RandomQuantized(const QuantizedShape& shape, uint32_t seed = 1) {
    std::mt19937 random(seed);
    const int half = shape.bits == 4 ? 8 : 128;
    const auto below = [&](int limit) { return static_cast<int>(random() % limit); };
    tensor_ = {.bits = shape.bits,
               .rows = shape.rows,
               .cols = shape.cols,
               .group = shape.group,
               .zero_point = shape.zero_point,
               .scale_dtype = shape.scale_dtype};
    codes_.resize(static_cast<size_t>(shape.rows * shape.cols));
    for (int8_t& code : codes_) code = static_cast<int8_t>(below(2 * half) - half);
    scales_.resize(static_cast<size_t>(shape.rows * tensor_.groups()));
    zeros_.resize(scales_.size());
    for (size_t i = 0; i < scales_.size(); ++i) {
      // Twelve bits and a power of two; fp16 and bf16 keep those that fit into them.
      const float exact = static_cast<float>(1 + below(4095)) / static_cast<float>(4096 * half);
      scales_[i] = shape.scale_dtype == DType::kBF16  ? FloatFromBf16(Bf16FromFloat(exact))
                   : shape.scale_dtype == DType::kF16 ? FloatFromF16(F16FromFloat(exact))
                                                      : exact * 1.0000001f;
      zeros_[i] = static_cast<int16_t>(below(2 * half + 1) - half);
      minimums_.push_back(static_cast<float>(below(4096) - 2048) / 4096.0f);
    }
    input_of_.resize(static_cast<size_t>(shape.cols));
    std::iota(input_of_.begin(), input_of_.end(), 0);
    std::shuffle(input_of_.begin(), input_of_.end(), random);
    tensor_.codes = codes_.data();
    tensor_.scales = scales_.data();
    if (shape.zero_points) tensor_.zero_points = zeros_.data();
    if (shape.minimums) tensor_.minimums = minimums_.data();
    if (shape.shuffled) tensor_.input_of = input_of_.data();
  }
  RandomQuantized(const RandomQuantized&) = delete;

  const QuantizedTensor& tensor() const { return tensor_; }

 private:
  QuantizedTensor tensor_;
  std::vector<int8_t> codes_;
  std::vector<float> scales_;
  std::vector<int16_t> zeros_;
  std::vector<float> minimums_;
  std::vector<int32_t> input_of_;
};

}  // namespace baton::kernels
