#include "tools/serve/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/stop_signals.h"
#include "common/config/flag_set.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

using std::chrono::milliseconds;

constexpr base::Duration kPollStep = milliseconds(50);
constexpr base::Duration kStableAfter = std::chrono::seconds(30);  // a life that ends the back-off
constexpr base::Duration kKillGrace = std::chrono::seconds(5);     // beyond the drain timeout
constexpr int kSignals = 128;  // what ChildProcess::Reap adds to a signal

sigset_t HandledSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGCHLD}) sigaddset(&set, signal);
  return set;
}

// What is known of an exit code of ChildProcess::Reap. A signal leaves no log line of its own.
std::string ExitText(int code) {
  std::string text = absl::StrCat("exit code ", code);
  if (code <= kSignals) return text;
  absl::StrAppend(&text, " (signal ", code - kSignals, ", ", strsignal(code - kSignals));
  if (code - kSignals == SIGBUS) {
    absl::StrAppend(&text,
                    ": a file of the model or the load cache was truncated, or failed, while "
                    "it was read");
  }
  return text + ")";
}

// What whoever runs the service can do for one that does not come back. Its own log line names its
// own flags, which are not theirs.
std::string Remedy(int code) {
  if (code != ToInt(ExitCode::kPortInUse)) return "";
  return "; `ss -ltnp` shows who has the port of its line above: end that process, or start "
         "baton serve anew";
}

bool IsOneOf(const std::vector<std::string>& roles, const std::string& role) {
  return std::find(roles.begin(), roles.end(), role) != roles.end();
}

}  // namespace

struct Supervisor::Service {
  ServiceSpec spec;
  std::optional<ChildProcess> process;
  LineReader out_reader, err_reader;
  std::optional<ReadyLine> ready;  // of this life
  std::optional<int> exit_code;    // of the last life, while there is no process
  base::Instant started_at{}, restart_at = base::kNever;
  base::Duration backoff{};
  int lives = 0;
  bool draining = false;  // so it is not to come back
  int sent = 0;           // the last signal that this life got from us

  void Signal(int signal) {
    sent = signal;
    process->Signal(signal);
  }
  bool EndedAsTold() const {
    return sent != 0 && (*exit_code == ToInt(ExitCode::kOk) || *exit_code == kSignals + sent);
  }
};

Supervisor::Supervisor(SupervisorOptions options, const base::Clock* clock, LogOutput* log)
    : options_(options), clock_(clock), log_(log) {
  const sigset_t handled = HandledSignals();
  pthread_sigmask(SIG_BLOCK, &handled, nullptr);
  signals_ = UniqueFd(signalfd(-1, &handled, SFD_NONBLOCK | SFD_CLOEXEC));
  BATON_CHECK(signals_.get() >= 0) << "no signalfd";
}

Supervisor::~Supervisor() {
  services_.clear();
  const sigset_t handled = HandledSignals();
  ReadSignals();  // what is pending must not strike after the unblocking
  pthread_sigmask(SIG_UNBLOCK, &handled, nullptr);
}

absl::Status Supervisor::Launch(Service* service) {
  service->restart_at = base::kNever;
  service->ready.reset();
  service->exit_code.reset();
  service->sent = 0;
  service->out_reader = LineReader();
  service->err_reader = LineReader();
  service->started_at = clock_->Now();
  // Only the first life gets the failpoint: one that stopped it would stop its successor too.
  const bool first = service->lives++ == 0;
  BATON_ASSIGN_OR_RETURN(
      service->process,
      ChildProcess::Start({.program = service->spec.program,
                           .arguments = service->spec.arguments,
                           .environment = ChildEnvironment(first, service->spec.environment)}));
  return absl::OkStatus();
}

std::optional<Fatal> Supervisor::StartAll(const std::vector<ServiceSpec>& specs) {
  started_ = false;
  const size_t first = services_.size();
  for (const ServiceSpec& spec : specs) {
    services_.push_back(std::make_unique<Service>());
    services_.back()->spec = spec;
    services_.back()->backoff = options_.first_backoff;
    const absl::Status status = Launch(services_.back().get());
    if (!status.ok()) {
      return Fatal{.code = ExitCode::kResources,
                   .what = "cannot start " + spec.name,
                   .why = std::string(status.message().data(), status.message().size()),
                   .next = "BATON_BIN_DIR with the folder that holds the baton binaries"};
    }
  }
  const base::Instant deadline = clock_->Now() + options_.start_timeout;
  const auto settled = [&] {
    return StartFailure().has_value() ||
           std::all_of(services_.begin() + static_cast<ptrdiff_t>(first), services_.end(),
                       [](const auto& service) { return service->ready.has_value(); });
  };
  RunUntil(settled, deadline);
  if (const auto failure = StartFailure()) return failure;
  if (!stop_requested() && clock_->Now() >= deadline) {
    return Fatal{
        .code = ExitCode::kResources,
        .what = NotReady() + " did not get ready",
        .why = "no ready line within " + absl::StrCat(base::Seconds(options_.start_timeout)) + " s",
        .next = "read its log lines above"};
  }
  started_ = true;
  return std::nullopt;
}

std::string Supervisor::NotReady() const {
  std::string names;
  for (const auto& service : services_) {
    if (!service->ready) names += (names.empty() ? "" : ", ") + service->spec.name;
  }
  return names;
}

std::optional<Fatal> Supervisor::StartFailure() const {
  for (const auto& service : services_) {
    if (!service->exit_code) continue;
    const int code = *service->exit_code;
    const bool ours = code >= ToInt(ExitCode::kUsage) && code <= ToInt(ExitCode::kPortInUse);
    return Fatal{.code = ours ? static_cast<ExitCode>(code) : ExitCode::kResources,
                 .what = "cannot start " + service->spec.name,
                 .why = "it ended with " + ExitText(code),
                 .next = code == kSignals + SIGBUS ? "again once the files are whole"
                                                   : "fix what its last log line above says"};
  }
  return std::nullopt;
}

void Supervisor::RunUntil(const std::function<bool()>& done, base::Instant deadline) {
  while (!stop_requested() && clock_->Now() < deadline && !done()) {
    Poll(std::min(kPollStep, deadline - clock_->Now()));
  }
}

void Supervisor::Poll(base::Duration at_most) {
  std::vector<pollfd> fds = {{.fd = signals_.get(), .events = POLLIN, .revents = 0}};
  for (const auto& service : services_) {
    // poll ignores negative descriptors.
    fds.push_back({service->process ? service->process->out() : -1, POLLIN, 0});
    fds.push_back({service->process ? service->process->err() : -1, POLLIN, 0});
  }
  const auto timeout = std::chrono::duration_cast<milliseconds>(at_most).count() + 1;
  poll(fds.data(), fds.size(), static_cast<int>(timeout));
  ReadSignals();
  TellOfGap();
  for (size_t i = 0; i < services_.size(); ++i) {
    Service* service = services_[i].get();
    if (!service->process) continue;
    if (fds[2 * i + 1].revents != 0) ReadOutput(service);
    if (fds[2 * i + 2].revents != 0) ReadLog(service);
    Reap(service);
  }
  if (started_) RestartDue();
}

void Supervisor::ReadSignals() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo == SIGCHLD) continue;
    const base::Instant now = clock_->Now();
    if (stops_ > 0 && now - last_stop_at_ < base::StopSignals::kSentTwice) continue;
    ++stops_;
    last_stop_at_ = now;
  }
}

void Supervisor::ReadOutput(Service* service) {
  bool at_end = false;
  for (const std::string& line : service->out_reader.Read(service->process->out(), &at_end)) {
    const auto ready = ParseReadyLine(line);
    if (!ready) {
      spdlog::info("{} printed: {}", service->spec.name, line);
      continue;
    }
    service->ready = ready;
    spdlog::info("{} {}: gRPC {}, admin {}, pid {}", service->spec.name,
                 ready->ready ? "is ready" : "listens", ready->grpc, ready->admin,
                 service->process->pid());
  }
  if (at_end) service->process->CloseOut();
}

void Supervisor::ReadLog(Service* service) {
  bool at_end = false;
  std::string text;
  for (const std::string& line : service->err_reader.Read(service->process->err(), &at_end)) {
    if (options_.prefix_logs) text += "[" + service->spec.name + "] ";
    text += line + "\n";
  }
  log_->Add(text);
  if (at_end) service->process->CloseErr();
}

void Supervisor::TellOfGap() {
  const size_t lines = log_->TakeDropped();
  if (lines == 0) return;
  spdlog::warn("{} lines of the log are missing here: nobody read standard error", lines);
}

void Supervisor::Reap(Service* service) {
  const std::optional<int> code = service->process->Reap();
  if (!code) return;
  if (service->process->out() >= 0) ReadOutput(service);
  if (service->process->err() >= 0) ReadLog(service);
  service->process.reset();
  service->ready.reset();
  service->exit_code = code;
  TellOfEnd(service);
}

// And has it come back, if it is to.
void Supervisor::TellOfEnd(Service* service) {
  const std::string end = service->spec.name + " ended with " + ExitText(*service->exit_code);
  if (!started_ || service->draining) {
    if (!service->EndedAsTold()) spdlog::warn("{}", end);
    return;
  }
  const base::Instant now = clock_->Now();
  if (now - service->started_at >= kStableAfter) service->backoff = options_.first_backoff;
  service->restart_at = now + service->backoff;
  spdlog::warn("{}; it starts again in {:.1f} s{}", end, base::Seconds(service->backoff),
               Remedy(*service->exit_code));
  service->backoff = std::min(2 * service->backoff, options_.max_backoff);
}

void Supervisor::RestartDue() {
  for (const auto& service : services_) {
    if (service->process || service->draining || clock_->Now() < service->restart_at) continue;
    const absl::Status status = Launch(service.get());
    if (status.ok()) continue;
    spdlog::error("cannot start {}: {}", service->spec.name, status.ToString());
    service->restart_at = clock_->Now() + service->backoff;
  }
}

void Supervisor::Drain(const std::vector<std::string>& roles,
                       std::optional<base::Duration> at_most) {
  const int stops_before = std::max(stops_, 1);
  for (const auto& service : services_) {
    if (IsOneOf(roles, service->spec.role)) service->draining = true;
  }
  const auto each = [&](const std::function<void(Service*)>& act) {
    for (const auto& service : services_) {
      if (service->process && service->draining) act(service.get());
    }
  };
  // What is not ready has nobody to let go on, and may be stuck in its start.
  each([](Service* service) { service->Signal(service->ready ? SIGTERM : SIGKILL); });
  const base::Instant deadline =
      clock_->Now() + at_most.value_or(options_.drain_timeout + kKillGrace);
  const auto alive = [&] {
    size_t count = 0;
    each([&](Service*) { ++count; });
    return count;
  };
  while (alive() > 0 && clock_->Now() < deadline && stops_ <= stops_before) Poll(kPollStep);
  if (alive() == 0) return;
  const char* const why = stops_ > stops_before ? "a second signal came" : "it did not end in time";
  each([why](Service* service) {
    spdlog::warn("{} is killed: {}", service->spec.name, why);
    service->Signal(SIGKILL);
  });
  while (alive() > 0) Poll(kPollStep);
}

std::vector<ReadyLine> Supervisor::ready_lines() const {
  std::vector<ReadyLine> lines;
  for (const auto& service : services_) lines.push_back(service->ready.value_or(ReadyLine()));
  return lines;
}

std::vector<pid_t> Supervisor::pids() const {
  std::vector<pid_t> pids;
  for (const auto& service : services_) {
    pids.push_back(service->process ? service->process->pid() : -1);
  }
  return pids;
}

std::vector<std::string> ChildEnvironment(bool failpoints, const std::vector<std::string>& more) {
  FlagSet::Environment variables = FlagSet::ProcessEnvironment();
  // libgomp's default spinning stalls workers that share cores.
  variables.try_emplace("GOMP_SPINCOUNT", "1000");
  for (const std::string& variable : more) {
    const size_t equals = variable.find('=');
    variables[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  std::vector<std::string> environment;
  for (const auto& [name, value] : variables) {
    const bool setting = name.starts_with("BATON_");
    if (!setting || (failpoints && name == "BATON_FAILPOINT")) {
      environment.push_back(name + "=" + value);
    }
  }
  return environment;
}

}  // namespace baton
