#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "common/base/clock.h"

namespace baton::simulator {

// Virtual time: what is to happen, in order of its moment and, at one moment, in the order in which
// it was said. Running an event moves the time there; nothing else does.
class Timeline final {
 public:
  using Event = std::function<void()>;

  base::Instant now() const { return now_; }
  // An event of the past happens now, behind what was said before.
  void At(base::Instant when, Event event) {
    events_.push({when < now_ ? now_ : when, ++number_, std::move(event)});
  }
  void After(base::Duration wait, Event event) { At(now_ + wait, std::move(event)); }

  // Runs the next event. False when there is none.
  bool RunNext() {
    if (events_.empty()) return false;
    // The queue orders by two numbers that stay as they are, so its top may be emptied.
    Event event = std::move(const_cast<Entry&>(events_.top()).event);
    now_ = events_.top().when;
    events_.pop();
    event();
    return true;
  }

 private:
  struct Entry {
    base::Instant when;
    uint64_t number;
    Event event;
    bool operator<(const Entry& other) const {
      return when != other.when ? when > other.when : number > other.number;
    }
  };

  // Not the epoch, which means "never was" in several places.
  base::Instant now_{std::chrono::hours(1)};
  uint64_t number_ = 0;
  std::priority_queue<Entry> events_;
};

}  // namespace baton::simulator
