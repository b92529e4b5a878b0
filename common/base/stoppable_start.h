#pragma once

#include <atomic>
#include <thread>

#include "common/base/stop_signals.h"

namespace baton::base {

// Ends the process with exit code 0 at SIGTERM or SIGINT while it starts: nobody has been served
// yet, and whoever will read the signals is deep in a load. The load is broken off as by a kill, so
// what it shares with other processes must survive one. Made, and told of the end of the start, by
// one thread.
class StoppableStart final {
 public:
  // `signals` must outlive this.
  explicit StoppableStart(const StopSignals* signals);
  ~StoppableStart() { Over(); }
  StoppableStart(const StoppableStart&) = delete;
  StoppableStart& operator=(const StoppableStart&) = delete;

  // Before anybody can be served. When it returns, no signal has come so far, and later ones are
  // left to `signals`. Calling it again does nothing.
  void Over();

 private:
  void Watch() const;

  const StopSignals* const signals_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace baton::base
