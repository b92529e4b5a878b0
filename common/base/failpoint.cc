#include "common/base/failpoint.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "spdlog/spdlog.h"

namespace baton::base {
namespace {

constexpr int kExitCode = 86;

enum class Action { kStop, kExit, kAbort, kDelay };

struct Point {
  std::string state;
  uint64_t only_hit = 0;  // 0 = every hit
  Action action = Action::kStop;
  std::chrono::microseconds delay{};          // once
  std::chrono::microseconds delay_of_each{};  // unit
  uint64_t hits = 0;
};

struct Table {
  Mutex mutex;
  std::vector<Point> points ABSL_GUARDED_BY(mutex);
};

std::atomic<bool> armed{false};

Table& GetTable() {
  static Table* table = new Table;  // outlives every thread
  return *table;
}

bool ParseNumber(std::string_view text, int64_t* out) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *out);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() && *out >= 0;
}

// What stands behind `name` in `text`; false when that is not how it begins.
bool ParseSetting(std::string_view text, std::string_view name, int64_t* value) {
  return text.starts_with(name) && ParseNumber(text.substr(name.size()), value);
}

bool ParseAction(std::string_view text, Point* point) {
  int64_t delay = 0;
  if (text == "stop") {
    point->action = Action::kStop;
  } else if (text == "exit") {
    point->action = Action::kExit;
  } else if (text == "abort") {
    point->action = Action::kAbort;
  } else if (ParseSetting(text, "delay_ms=", &delay)) {
    point->action = Action::kDelay;
    point->delay = std::chrono::milliseconds(delay);
  } else if (ParseSetting(text, "delay_us_each=", &delay)) {
    point->action = Action::kDelay;
    point->delay_of_each = std::chrono::microseconds(delay);
  } else {
    return false;
  }
  return true;
}

bool ParsePoint(std::string_view text, Point* point) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  std::string_view state = text.substr(0, colon);
  const size_t at = state.find('@');
  if (at != std::string_view::npos) {
    int64_t hit = 0;
    if (!ParseNumber(state.substr(at + 1), &hit) || hit == 0) return false;
    point->only_hit = static_cast<uint64_t>(hit);
    state = state.substr(0, at);
  }
  point->state = std::string(state);
  return !state.empty() && ParseAction(text.substr(colon + 1), point);
}

void Act(const Point& point, int64_t units) {
  spdlog::warn("failpoint {} hit", point.state);
  switch (point.action) {
    case Action::kStop:
      raise(SIGSTOP);
      break;
    case Action::kExit:
      _exit(kExitCode);
    case Action::kAbort:
      std::abort();
    case Action::kDelay:
      std::this_thread::sleep_for(point.delay + units * point.delay_of_each);
      break;
  }
}

}  // namespace

absl::Status ArmFailpoints(std::string_view spec) {
  std::vector<Point> points;
  while (!spec.empty()) {
    const size_t comma = spec.find(',');
    const std::string_view one = spec.substr(0, comma);
    Point point;
    if (!ParsePoint(one, &point)) {
      return absl::InvalidArgumentError(
          "BATON_FAILPOINT has '" + std::string(one) +
          "'; expected state[@hit]:stop|exit|abort|delay_ms=N|delay_us_each=N, several with "
          "commas");
    }
    points.push_back(std::move(point));
    spec = comma == std::string_view::npos ? std::string_view() : spec.substr(comma + 1);
  }
  MutexLock lock(&GetTable().mutex);
  GetTable().points = std::move(points);
  armed.store(!GetTable().points.empty(), std::memory_order_relaxed);
  return absl::OkStatus();
}

void DisarmFailpoints() {
  MutexLock lock(&GetTable().mutex);
  GetTable().points.clear();
  armed.store(false, std::memory_order_relaxed);
}

void Failpoint(const char* state, int64_t units) {
  if (!armed.load(std::memory_order_relaxed)) return;
  std::vector<Point> due;
  {
    MutexLock lock(&GetTable().mutex);
    for (Point& point : GetTable().points) {
      if (point.state != state) continue;
      ++point.hits;
      if (point.only_hit == 0 || point.only_hit == point.hits) due.push_back(point);
    }
  }
  for (const Point& point : due) Act(point, units);
}

}  // namespace baton::base
