#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/config/exit_code.h"
#include "tools/serve/child_process.h"
#include "tools/serve/line_reader.h"

namespace baton::batch {

// A `baton serve` of our own: started, watched, and ended with the object. Not thread-safe; the
// thread that makes it has to outlive it.
class OwnService final {
 public:
  // `log` takes each line that it logs, to the end of the object.
  explicit OwnService(std::function<void(const std::string& line)> log) : log_(std::move(log)) {}
  // SIGTERM, and SIGKILL when it has not ended within 10 s.
  ~OwnService();
  OwnService(const OwnService&) = delete;
  OwnService& operator=(const OwnService&) = delete;

  // Starts it and waits until it serves, or `stop` is true. Empty on success and when stopped;
  // `address` then tells which. On failure what to exit with.
  std::optional<Fatal> Start(const std::vector<std::string>& arguments,
                             const std::atomic<bool>& stop);
  // Where it speaks HTTP; empty while it does not.
  const std::string& address() const { return address_; }

  // Passes on what it logged, and says whether it still runs. To be called often.
  absl::Status Look();

 private:
  void ReadOutput();

  const std::function<void(const std::string& line)> log_;
  std::optional<ChildProcess> process_;
  LineReader out_reader_, err_reader_;
  std::string address_;
  std::optional<int> exit_code_;
};

}  // namespace baton::batch
