#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace baton {

// The numbers that every Baton binary exits with.
enum class ExitCode {
  kOk = 0,
  kRequestFailed = 1,  // `generate`: a request; `probe`: not serving; `eos`: a row
  kUsage = 2,          // command line, environment or configuration file
  kModel = 3,          // the model directory cannot be served
  kResources = 4,      // memory, threads, files, a device
  kPortInUse = 5,
};

constexpr int ToInt(ExitCode code) { return static_cast<int>(code); }

// The reason why a process ends by itself. Each part is a phrase without a final period.
struct Fatal {
  ExitCode code = ExitCode::kUsage;
  std::string what;  // "cannot listen on 127.0.0.1:50051"
  std::string why;   // "the port is in use"
  std::string next;  // "--port 0 takes any free port"
};

// "baton-router: fatal: cannot listen on 127.0.0.1:50051: the port is in use. Try: --port 0 …"
std::string FatalLine(std::string_view program, const Fatal& fatal);

// Why a start failed, from the status that says so. Messages of this code base read "what is wrong;
// what to do", and `next` stands in where a message names nothing to do. Some status codes decide
// the exit code: ALREADY_EXISTS means a port in use, RESOURCE_EXHAUSTED resources, OUT_OF_RANGE
// usage; with all others it is `otherwise`.
Fatal FatalOf(const absl::Status& status, ExitCode otherwise, std::string what,
              std::string next = "");

// Prints the line to stderr, into a log of JSON as one of its lines, and returns the number to exit
// with.
int ReportFatal(std::string_view program, const Fatal& fatal);
// The same for usage errors that say all of it themselves, one on each line of the message.
int ReportUsage(std::string_view program, const absl::Status& status);

}  // namespace baton
