#pragma once

#include <cstdint>

namespace baton {

// A straight line through points that come one after the other, by least squares in which a point
// counts the less the more came after it: `kept` of its weight is left with each of them. Where all
// points have about the same x, which says nothing of a slope, it is the line through the origin.
// Not thread-safe.
class RunningLine final {
 public:
  explicit RunningLine(double kept) : kept_(kept) {}

  void Add(double x, double y);

  int64_t points() const { return points_; }
  // Neither is below zero: what is added up here are costs.
  double slope() const;
  double at_zero() const;

 private:
  const double kept_;
  int64_t points_ = 0;
  // Sums over the points by weight, which is 1 for the last of them.
  double weight_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;
};

}  // namespace baton
