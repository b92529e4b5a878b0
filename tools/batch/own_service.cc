#include "tools/batch/own_service.h"

#include <poll.h>
#include <signal.h>

#include <array>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/ready_line.h"
#include "nlohmann/json.hpp"
#include "tools/serve/binary_folder.h"
#include "tools/serve/supervisor.h"

namespace baton::batch {
namespace {

constexpr auto kEndWithin = std::chrono::seconds(10);
constexpr int kPollMs = 50;

// The address in the ready line of `baton serve`; empty for any other line.
std::string HttpOf(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("http") || !json["http"].is_string()) return "";
  return json["http"].get<std::string>();
}

ExitCode ExitCodeOf(int exit_code) {
  const bool ours =
      exit_code >= ToInt(ExitCode::kUsage) && exit_code <= ToInt(ExitCode::kPortInUse);
  return ours ? static_cast<ExitCode>(exit_code) : ExitCode::kResources;
}

}  // namespace

std::optional<Fatal> OwnService::Start(const std::vector<std::string>& arguments,
                                       const std::atomic<bool>& stop) {
  std::vector<std::string> all = {"serve"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  auto started = ChildProcess::Start({.program = BinaryFolder() / "baton",
                                      .arguments = all,
                                      .environment = ChildEnvironment(/*failpoints=*/true)});
  if (!started.ok()) {
    return FatalOf(started.status(), ExitCode::kResources, "cannot start baton serve",
                   "BATON_BIN_DIR with the folder that holds the baton binaries");
  }
  process_.emplace(*std::move(started));
  // Its own time limits end it when its processes do not get ready.
  while (address_.empty() && !exit_code_ && !stop) {
    std::array<pollfd, 2> fds = {{{process_->out(), POLLIN, 0}, {process_->err(), POLLIN, 0}}};
    poll(fds.data(), fds.size(), kPollMs);
    ReadOutput();
  }
  if (!exit_code_) return std::nullopt;
  return Fatal{.code = ExitCodeOf(*exit_code_),
               .what = "cannot start workers",
               .why = absl::StrCat("baton serve ended with exit code ", *exit_code_),
               .next = "what its lines above say"};
}

void OwnService::ReadOutput() {
  if (!process_) return;
  bool out_end = false, err_end = false;
  const std::optional<int> exit_code = process_->Reap();
  for (const std::string& line : out_reader_.Read(process_->out(), &out_end)) {
    if (address_.empty()) address_ = HttpOf(line);
  }
  for (const std::string& line : err_reader_.Read(process_->err(), &err_end)) log_(line);
  if (exit_code) {
    exit_code_ = exit_code;
    process_.reset();
  }
}

absl::Status OwnService::Look() {
  ReadOutput();
  if (!exit_code_) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("baton serve, which was started here, ended with exit code ", *exit_code_));
}

OwnService::~OwnService() {
  if (!process_) return;
  process_->Signal(SIGTERM);
  const base::SteadyClock clock;
  const base::Instant deadline = clock.Now() + kEndWithin;
  while (process_ && clock.Now() < deadline) {
    std::array<pollfd, 1> fds = {{{process_->err(), POLLIN, 0}}};
    poll(fds.data(), fds.size(), kPollMs);
    ReadOutput();
  }
}

}  // namespace baton::batch
