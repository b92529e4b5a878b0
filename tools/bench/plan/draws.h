#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "common/base/philox.h"

namespace baton::bench {

// What a draw is for. Each purpose has draws of its own, so that another rate, say, leaves the
// lengths as they are.
enum class Purpose : uint32_t {
  kArrivals = 1,
  kInput,
  kOutput,
  kPrompt,
  kSharedPrefix,
  kHashBlock,
  kPrefixChoice,
  kAnswerOrder
};

// A sequence of random numbers that depends on (seed, purpose) alone. The distributions are written
// out, as those of the standard library differ between implementations; what is left to the
// platform is the last bit of std::log and its kin.
class Draws final {
 public:
  Draws(uint64_t seed, Purpose purpose) : seed_(seed), purpose_(static_cast<uint32_t>(purpose)) {}

  // Uniform in the open interval (0, 1), 53 bits.
  double Uniform() { return (static_cast<double>(Next() >> 12) + 0.5) * 0x1.0p-52; }
  // Uniform among 0 .. n - 1, for n < 2^32 (the bias is below n / 2^32).
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(((Next() >> 32) * uint64_t{n}) >> 32); }
  // Mean 1.
  double Exponential() { return -std::log(Uniform()); }
  // Mean 0, standard deviation 1 (Box and Muller, one half of the pair).
  double Normal() {
    const double radius = std::sqrt(2 * Exponential());
    return radius * std::cos(2 * 3.14159265358979323846 * Uniform());
  }
  // Mean `shape`, scale 1 (Marsaglia and Tsang, "A simple method for generating gamma variables",
  // 2000).
  double Gamma(double shape) {
    if (shape < 1) return Gamma(shape + 1) * std::pow(Uniform(), 1 / shape);
    const double d = shape - 1.0 / 3;
    const double c = 1 / std::sqrt(9 * d);
    while (true) {
      const double x = Normal();
      const double v = (1 + c * x) * (1 + c * x) * (1 + c * x);
      if (v <= 0) continue;
      if (std::log(Uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
    }
  }

 private:
  uint64_t Next() {
    if (used_ == 2) {
      words_ = base::Philox4x32(
          {static_cast<uint32_t>(counter_), static_cast<uint32_t>(counter_ >> 32), purpose_, 0},
          seed_);
      ++counter_;
      used_ = 0;
    }
    const size_t at = 2 * static_cast<size_t>(used_++);
    return uint64_t{words_[at]} << 32 | words_[at + 1];
  }

  const uint64_t seed_;
  const uint32_t purpose_;
  uint64_t counter_ = 0;
  std::array<uint32_t, 4> words_{};
  int used_ = 2;  // of the two numbers in words_
};

}  // namespace baton::bench
