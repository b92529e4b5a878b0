#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "common/base/clock.h"

namespace baton::simulator {

// The course of a number in few others: its mean over each of at most 128 spans of time of equal
// length. When more time passes than they hold, two become one.
class SpanMeans final {
 public:
  // `value` stood for so long, behind what was added before.
  void Add(base::Duration length, double value);

  base::Duration every() const { return every_; }
  // The means; the last span counts as much of it as there was.
  std::vector<double> Means() const;

 private:
  static constexpr int64_t kMost = 128;

  void Widen();

  base::Duration every_ = std::chrono::milliseconds(1);
  base::Duration now_{};
  std::vector<double> sums_;  // value · seconds, of each span begun
};

}  // namespace baton::simulator
