#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace baton::batch {

// How often a service refused one line while it answered others. A service that is full refuses any
// line, and takes it sooner or later; one that answers others each time, and refuses this line
// still, will never take it.
class LineRefusals final {
 public:
  // `answers` are those to all lines so far, when this one is sent for the first time.
  explicit LineRefusals(int64_t answers = 0) : answers_(answers) {}

  // It was refused, with `others` under way: they had their places before it was sent, so that
  // answers to them say nothing.
  void Count(int64_t answers, size_t others) {
    const auto least = static_cast<int64_t>(std::clamp<size_t>(others, 1, kMostOthers));
    if (answers - answers_ < least) return;
    ++count_;
    answers_ = answers;
  }

  // Whether the line is under suspicion, and whether it is to be sent no more.
  bool any() const { return count_ > 0; }
  bool enough() const { return count_ >= kMost; }

  static constexpr int kMost = 20;

 private:
  // More of them would be a line's fate only where many are under way.
  static constexpr size_t kMostOthers = 8;

  int64_t answers_;  // when it was counted last
  int count_ = 0;
};

}  // namespace baton::batch
