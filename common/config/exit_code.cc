#include "common/config/exit_code.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/log.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

ExitCode CodeOf(const absl::Status& status, ExitCode otherwise) {
  switch (status.code()) {
    case absl::StatusCode::kAlreadyExists:
      return ExitCode::kPortInUse;
    case absl::StatusCode::kResourceExhausted:
      return ExitCode::kResources;
    case absl::StatusCode::kOutOfRange:
      return ExitCode::kUsage;
    default:
      return otherwise;
  }
}

std::string Sentence(const Fatal& fatal) {
  std::string text = "fatal: " + fatal.what + ": " + fatal.why + ".";
  if (!fatal.next.empty()) text += " Try: " + fatal.next;
  return text;
}

}  // namespace

Fatal FatalOf(const absl::Status& status, ExitCode otherwise, std::string what, std::string next) {
  Fatal fatal{.code = CodeOf(status, otherwise),
              .what = std::move(what),
              .why = std::string(status.message()),
              .next = std::move(next)};
  const size_t split = fatal.why.rfind("; ");
  // A part that begins with "expected" belongs to what was found; it is no advice.
  if (split == std::string::npos || fatal.why.compare(split, 10, "; expected") == 0) return fatal;
  fatal.next = fatal.why.substr(split + 2);
  fatal.why.resize(split);
  return fatal;
}

std::string FatalLine(std::string_view program, const Fatal& fatal) {
  return std::string(program) + ": " + Sentence(fatal);
}

int ReportFatal(std::string_view program, const Fatal& fatal) {
  if (base::LogsJson()) {
    spdlog::critical("{}", Sentence(fatal));  // the line has the program's name
  } else {
    const std::string line = FatalLine(program, fatal) + "\n";
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
  return ToInt(fatal.code);
}

int ReportUsage(std::string_view program, const absl::Status& status) {
  std::string lines;
  for (const auto& error : absl::StrSplit(status.message(), '\n')) {
    absl::StrAppend(&lines, std::string(program), ": fatal: ", error, "\n");
  }
  std::fwrite(lines.data(), 1, lines.size(), stderr);
  return ToInt(ExitCode::kUsage);
}

}  // namespace baton
