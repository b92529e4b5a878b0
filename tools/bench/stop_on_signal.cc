#include "tools/bench/stop_on_signal.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace baton::bench {

namespace {
constexpr int kInterrupted = 130;  // what a shell shows after Ctrl-C
}

StopOnSignal::StopOnSignal() : watcher_([this] { Watch(); }) {}

StopOnSignal::~StopOnSignal() {
  done_ = true;
  watcher_.join();
}

void StopOnSignal::Watch() {
  while (!done_) {
    if (!signals_.Arrived(std::chrono::milliseconds(50))) continue;
    if (stop_.exchange(true)) _exit(kInterrupted);
    std::fputs("\nstopping; what was measured is kept (once more: end at once)\n", stderr);
  }
}

}  // namespace baton::bench
