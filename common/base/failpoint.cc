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
  int64_t delay_ms = 0;
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

bool ParseAction(std::string_view text, Point* point) {
  constexpr std::string_view kDelay = "delay_ms=";
  if (text == "stop") {
    point->action = Action::kStop;
  } else if (text == "exit") {
    point->action = Action::kExit;
  } else if (text == "abort") {
    point->action = Action::kAbort;
  } else if (text.substr(0, kDelay.size()) == kDelay) {
    point->action = Action::kDelay;
    return ParseNumber(text.substr(kDelay.size()), &point->delay_ms);
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

void Act(const Point& point) {
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
      std::this_thread::sleep_for(std::chrono::milliseconds(point.delay_ms));
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
          "'; expected state[@hit]:stop|exit|abort|delay_ms=N, several with commas");
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

void Failpoint(const char* state) {
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
  for (const Point& point : due) Act(point);
}

}  // namespace baton::base
