#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "common/base/clock.h"
#include "spdlog/common.h"

namespace baton {

// Writes lines to a descriptor from a thread of its own, so that nobody here waits for whoever
// reads there: a pager, a held terminal, a pipe that is forgotten. What is not taken is kept up to
// a bound; lines beyond it are dropped and counted. Thread-safe.
class LogOutput final {
 public:
  static constexpr size_t kMostKept = size_t{1} << 20;  // bytes

  // Borrows `fd`, which may block.
  explicit LogOutput(int fd, size_t most_kept = kMostKept);
  // Gives what is kept a second to be written. Then the thread is left where it may be stuck.
  ~LogOutput();
  LogOutput(const LogOutput&) = delete;
  LogOutput& operator=(const LogOutput&) = delete;

  // Whole lines, each with its newline. Never waits. Once something was dropped, so is everything
  // until TakeDropped has told of it, so that the log has one gap there.
  void Add(std::string_view lines);
  // How many lines were dropped, when half of the bound is free again; they are forgotten then.
  // Until then, and when none were, 0.
  size_t TakeDropped();
  // Waits until all was written, `at_most` so long. Says whether it was.
  bool Flush(base::Duration at_most);

  // Where spdlog puts its lines; may outlive this.
  spdlog::sink_ptr Sink() const;

 private:
  struct Shared;

  const std::shared_ptr<Shared> shared_;  // with the thread, which may outlive this
};

}  // namespace baton
