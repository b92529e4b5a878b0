#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "spdlog/spdlog.h"

namespace baton::base {

enum class LogFormat { kText, kJson };

// Sets up the process-wide spdlog logger on stderr: a line of text for each message, whose control
// characters are escaped, or one JSON object per line with the keys ts, level, program, pid, msg.
// `level` is trace|debug|info|warn|error|off. A `sink` is in the place of stderr. From main, before
// other threads log; the last call counts.
absl::Status InitLog(LogFormat format, std::string_view level, spdlog::sink_ptr sink = nullptr);

// Whether whoever reads stderr expects JSON on each line, so that the last words of the process
// have to go through the log.
bool LogsJson();

}  // namespace baton::base
