#include "tools/bench/stop_on_signal.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace baton::bench {

namespace {
constexpr int kInterrupted = 130;  // what a shell shows after Ctrl-C
// One wish to stop may come as two signals, to the process and to its group.
constexpr auto kSameWish = std::chrono::seconds(1);
}  // namespace

StopOnSignal::StopOnSignal(const char* told) : told_(told), watcher_([this] { Watch(); }) {}

StopOnSignal::~StopOnSignal() {
  done_ = true;
  watcher_.join();
}

void StopOnSignal::Watch() {
  auto first = std::chrono::steady_clock::time_point::max();
  while (!done_) {
    if (!signals_.Arrived(std::chrono::milliseconds(50))) continue;
    const auto now = std::chrono::steady_clock::now();
    if (stop_.exchange(true)) {
      if (now - first > kSameWish) _exit(kInterrupted);
      continue;
    }
    first = now;
    std::fprintf(stderr, "\n%s (once more: end at once)\n", told_);
  }
}

}  // namespace baton::bench
