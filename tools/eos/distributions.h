#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

namespace baton {

// How many values were seen, with their mean and greatest.
class MeanAndMax final {
 public:
  void Add(double value);
  int64_t count() const { return count_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  double max() const { return max_; }

 private:
  int64_t count_ = 0;
  double sum_ = 0;
  double max_ = 0;
};

// The lengths of answers, exactly: how often each occurred. It grows with the number of different
// lengths, which the model's length bounds.
class Lengths final {
 public:
  void Add(int32_t length);
  const MeanAndMax& moments() const { return moments_; }
  // The least length that `share` of all lengths do not exceed; 0 without any.
  int32_t Quantile(double share) const;
  // How many are longer than `length`.
  int64_t CountAbove(int32_t length) const;

 private:
  std::map<int32_t, int64_t> counts_;
  MeanAndMax moments_;
};

// Probabilities, in a fixed amount of memory: quantiles are right within half a percent of
// themselves down to e^-30, and 0 below.
class Probabilities final {
 public:
  void Add(double probability);
  const MeanAndMax& moments() const { return moments_; }
  // The value that `share` of all do not exceed; 0 without any.
  double Quantile(double share) const;

 private:
  static constexpr size_t kBins = 3000;  // of one percent each, from 1 downwards

  std::array<int64_t, kBins + 1> counts_{};  // the last one: of what is smaller
  MeanAndMax moments_;
};

}  // namespace baton
