#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/config/exit_code.h"
#include "common/config/ready_line.h"
#include "tools/serve/child_process.h"
#include "tools/serve/line_reader.h"
#include "tools/serve/log_output.h"

namespace baton {

// One program to keep running.
struct ServiceSpec {
  std::string role;  // router, prefill or decode
  std::string name;  // "decode-0", in front of its log lines
  std::string program;
  std::vector<std::string> arguments;  // the same in every life, so that it comes back where it was
  std::vector<std::string> environment = {};  // NAME=value, before what this process has
};

struct SupervisorOptions {
  bool prefix_logs = true;  // put "[decode-0] " in front of the children's lines
  base::Duration drain_timeout = std::chrono::seconds(30);
  base::Duration start_timeout = std::chrono::minutes(10);  // a large model on a slow disk
  base::Duration first_backoff = std::chrono::milliseconds(500);
  base::Duration max_backoff = std::chrono::seconds(10);
};

// Starts programs, forwards what they log, restarts those that die, and ends them. Nobody waits for
// whoever reads the log: neither this, which would miss signals, nor the programs.
// Single-threaded: everything happens inside its calls, in the thread that made it. Blocks SIGTERM,
// SIGINT and SIGCHLD of that thread; make it before any other thread that does not block them.
class Supervisor final {
 public:
  // Borrows `clock` and `log`.
  Supervisor(SupervisorOptions options, const base::Clock* clock, LogOutput* log);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Starts `specs` and waits until each printed its ready line. Empty on success; on failure says
  // what to exit with. `stop_requested` afterwards means that a signal came first.
  std::optional<Fatal> StartAll(const std::vector<ServiceSpec>& specs);

  // Handles events until `done` holds, a signal asks to stop, or `deadline` passed. `done` is asked
  // at least every 50 ms.
  void RunUntil(const std::function<bool()>& done, base::Instant deadline);

  // Sends SIGTERM to the services of `roles` and waits until they have ended. After the drain
  // timeout and a grace they get SIGKILL, as they do at once when we are signalled a second time,
  // or when they were not ready yet. Services of other roles are restarted meanwhile, as those that
  // drain may need them.
  // `at_most` is in the place of the drain timeout and the grace, where it is given.
  void Drain(const std::vector<std::string>& roles,
             std::optional<base::Duration> at_most = std::nullopt);

  bool stop_requested() const { return stops_ > 0; }
  // One for each service in the order they were started, with empty fields for one that is not
  // ready.
  std::vector<ReadyLine> ready_lines() const;
  std::vector<pid_t> pids() const;

 private:
  struct Service;

  absl::Status Launch(Service* service);
  void Poll(base::Duration at_most);
  void ReadSignals();
  void ReadOutput(Service* service);
  void ReadLog(Service* service);
  void TellOfGap();
  void Reap(Service* service);
  void TellOfEnd(Service* service);
  void RestartDue();
  std::optional<Fatal> StartFailure() const;
  std::string NotReady() const;  // names

  const SupervisorOptions options_;
  const base::Clock* const clock_;
  LogOutput* const log_;
  UniqueFd signals_;
  int stops_ = 0;  // SIGTERM or SIGINT so far, those in quick succession counted once
  base::Instant last_stop_at_{};
  bool started_ = false;  // so what ends is restarted
  std::vector<std::unique_ptr<Service>> services_;
};

// This process's environment for a child: without BATON_* settings, which the parent spells out as
// flags, with what libgomp must know before main, and with `more` in place of variables of the same
// names. `failpoints` keeps BATON_FAILPOINT.
std::vector<std::string> ChildEnvironment(bool failpoints,
                                          const std::vector<std::string>& more = {});

}  // namespace baton
