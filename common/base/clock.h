#pragma once

#include <atomic>
#include <chrono>

namespace baton::base {

using Instant = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;
constexpr Instant kNever = Instant::max();

inline double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline double Milliseconds(Duration d) { return 1e3 * Seconds(d); }

// Time is passed in: nothing in Baton reads the system clock except SteadyClock. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // A monotonic time, for deadlines and durations.
  virtual Instant Now() const = 0;
  // The seconds since the Unix epoch, for logs only.
  virtual double UnixNow() const = 0;
};

class SteadyClock final : public Clock {
 public:
  Instant Now() const override { return std::chrono::steady_clock::now(); }
  double UnixNow() const override {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

// A clock for tests that moves only when told to. It starts one hour after the steady epoch.
class ManualClock final : public Clock {
 public:
  Instant Now() const override { return Instant(Duration(nanos_.load())); }
  double UnixNow() const override { return 1e-9 * static_cast<double>(nanos_.load()); }
  void Advance(Duration d) { nanos_ += std::chrono::nanoseconds(d).count(); }

 private:
  std::atomic<int64_t> nanos_{3'600'000'000'000};
};

}  // namespace baton::base
