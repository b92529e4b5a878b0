#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cuda/cta/elements.h"

namespace baton::kernels::cuda {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Elements of T whose values are those of `values`, rounded.
template <typename T>
std::vector<T> Narrowed(const std::vector<float>& values) {
  std::vector<T> narrow(values.size());
  for (size_t i = 0; i < values.size(); ++i) Narrow(values[i], &narrow[i]);
  return narrow;
}

template <typename T>
std::vector<float> Widened(const std::vector<T>& elements) {
  std::vector<float> wide;
  wide.reserve(elements.size());
  for (const T element : elements) wide.push_back(Widen(element));
  return wide;
}

// What an element is made of, which tells zeros apart and NaNs equal.
template <typename T>
uint32_t BitsOf(T element) {
  uint32_t bits = 0;
  std::memcpy(&bits, &element, sizeof(element));
  return bits;
}
template <typename T>
std::vector<uint32_t> BitsOf(const std::vector<T>& elements) {
  std::vector<uint32_t> bits;
  bits.reserve(elements.size());
  for (const T element : elements) bits.push_back(BitsOf(element));
  return bits;
}

}  // namespace baton::kernels::cuda
