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
  // Groups whose scales and minimums share a unit: they are integers times that, whatever
  // scale_dtype says.
  int64_t unit_groups = 0;
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
      // Eight bits, which every type keeps.
      minimums_.push_back(static_cast<float>(below(256) - 128) / 256.0f);
    }
    if (shape.unit_groups > 0) {
      MakeSteps(shape.unit_groups, random, scale_steps_, scales_);
      MakeSteps(shape.unit_groups, random, minimum_steps_, minimums_);
      tensor_.unit_groups = shape.unit_groups;
      tensor_.scale_steps = {scale_steps_.steps.data(), scale_steps_.units.data()};
      tensor_.minimum_steps = {minimum_steps_.steps.data(), minimum_steps_.units.data()};
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
  struct Steps {
    std::vector<int8_t> steps;
    std::vector<uint16_t> units;
  };
  // Fills `numbers` with products of integers of eight bits and units, smallest ones of fp16 too.
  static void MakeSteps(int64_t unit_groups, std::mt19937& random, Steps& steps,
                        std::vector<float>& numbers) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (i % static_cast<size_t>(unit_groups) == 0) {
        steps.units.push_back(static_cast<uint16_t>(random() % 0x2000));  // below 2^-7
      }
      steps.steps.push_back(static_cast<int8_t>(random() % 256));
      numbers[i] = FloatFromF16(steps.units.back()) * static_cast<float>(steps.steps.back());
    }
  }

  QuantizedTensor tensor_;
  std::vector<int8_t> codes_;
  std::vector<float> scales_;
  std::vector<int16_t> zeros_;
  std::vector<float> minimums_;
  Steps scale_steps_;
  Steps minimum_steps_;
  std::vector<int32_t> input_of_;
};

}  // namespace baton::kernels
