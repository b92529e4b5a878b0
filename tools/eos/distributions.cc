#include "tools/eos/distributions.h"

#include <algorithm>
#include <cmath>

namespace baton {
namespace {

constexpr double kBinWidth = 0.01;  // of the natural logarithm

// How many of `count` sorted values stand up to the quantile; at least one.
int64_t RankOf(double share, int64_t count) {
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(share * static_cast<double>(count))));
}

}  // namespace

void MeanAndMax::Add(double value) {
  max_ = count_ == 0 ? value : std::max(max_, value);
  sum_ += value;
  ++count_;
}

void Lengths::Add(int32_t length) {
  ++counts_[length];
  moments_.Add(length);
}

int32_t Lengths::Quantile(double share) const {
  int64_t left = RankOf(share, moments_.count());
  for (const auto& [length, count] : counts_) {
    left -= count;
    if (left <= 0) return length;
  }
  return 0;
}

int64_t Lengths::CountAbove(int32_t length) const {
  int64_t above = 0;
  for (auto entry = counts_.upper_bound(length); entry != counts_.end(); ++entry) {
    above += entry->second;
  }
  return above;
}

void Probabilities::Add(double probability) {
  moments_.Add(probability);
  const double depth = probability > 0 ? -std::log(std::min(probability, 1.0)) / kBinWidth : kBins;
  ++counts_[static_cast<size_t>(std::min<double>(depth, kBins))];
}

double Probabilities::Quantile(double share) const {
  if (moments_.count() == 0) return 0;
  int64_t left = RankOf(share, moments_.count());
  if (left == moments_.count()) return moments_.max();
  left -= counts_[kBins];
  if (left <= 0) return 0;
  for (size_t bin = kBins; bin-- > 0;) {
    left -= counts_[bin];
    if (left > 0) continue;
    const double middle = std::exp(-kBinWidth * (static_cast<double>(bin) + 0.5));
    return std::min(middle, moments_.max());
  }
  return moments_.max();
}

}  // namespace baton
