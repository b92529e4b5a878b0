#include "common/base/running_line.h"

#include <algorithm>

namespace baton {
namespace {

// The least spread of x, as a share of its mean square, from which a slope is read.
constexpr double kLeastSpread = 1e-3;

}  // namespace

void RunningLine::Add(double x, double y) {
  ++points_;
  weight_ = kept_ * weight_ + 1;
  x_ = kept_ * x_ + x;
  y_ = kept_ * y_ + y;
  xx_ = kept_ * xx_ + x * x;
  xy_ = kept_ * xy_ + x * y;
}

double RunningLine::slope() const {
  if (xx_ <= 0) return 0;
  const double spread = weight_ * xx_ - x_ * x_;
  if (spread > kLeastSpread * weight_ * xx_) {
    const double slope = (weight_ * xy_ - x_ * y_) / spread;
    // A line that would begin below zero goes through the origin instead.
    if (y_ >= slope * x_) return std::max(0.0, slope);
  }
  return std::max(0.0, xy_ / xx_);
}

double RunningLine::at_zero() const {
  return weight_ > 0 ? std::max(0.0, (y_ - slope() * x_) / weight_) : 0;
}

}  // namespace baton
