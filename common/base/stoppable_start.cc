#include "common/base/stoppable_start.h"

#include <unistd.h>

#include <chrono>

#include "spdlog/spdlog.h"

namespace baton::base {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(20);

}  // namespace

StoppableStart::StoppableStart(const StopSignals* signals)
    : signals_(signals), thread_([this] { Watch(); }) {}

void StoppableStart::Over() {
  over_ = true;
  if (thread_.joinable()) thread_.join();
}

void StoppableStart::Watch() const {
  while (!over_) {
    // Over() waits for this thread, so a signal that is taken here always ends the process.
    if (!signals_->Arrived(kPoll)) continue;
    spdlog::info("told to stop while it starts: nothing is served yet, so there is no drain");
    spdlog::default_logger()->flush();
    _exit(0);  // joins no thread: those of a load may go on for minutes
  }
}

}  // namespace baton::base
