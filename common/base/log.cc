#include "common/base/log.h"

#include <cerrno>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/shown_text.h"
#include "nlohmann/json.hpp"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_color_sinks.h"

namespace baton::base {
namespace {

void AppendQuoted(std::string text, spdlog::memory_buf_t* out) {
  const auto replace = nlohmann::json::error_handler_t::replace;
  const std::string quoted = nlohmann::json(std::move(text)).dump(-1, ' ', false, replace);
  out->append(quoted.data(), quoted.data() + quoted.size());
}

// `%v` alone would break JSON on quotes and newlines, so the message is a custom flag.
class JsonMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    AppendQuoted(std::string(message.payload.data(), message.payload.size()), &out);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return spdlog::details::make_unique<JsonMessage>();
  }
};

// Messages hold text from outside. With `%v` alone it could begin lines that look like those of the
// process, and steer a terminal.
class OneLineMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string shown = ShownLine({message.payload.data(), message.payload.size()});
    out.append(shown.data(), shown.data() + shown.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return spdlog::details::make_unique<OneLineMessage>();
  }
};

// `baton serve` mixes the lines of several processes.
class ProgramName final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg&, const std::tm&, spdlog::memory_buf_t& out) override {
    AppendQuoted(program_invocation_short_name, &out);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return spdlog::details::make_unique<ProgramName>();
  }
};

bool logs_json = false;

}  // namespace

bool LogsJson() { return logs_json && spdlog::should_log(spdlog::level::critical); }

absl::Status InitLog(LogFormat format, std::string_view level, spdlog::sink_ptr sink) {
  const auto parsed = spdlog::level::from_str(std::string(level));
  if (parsed == spdlog::level::off && level != "off") {
    return absl::InvalidArgumentError("--log-level is '" + std::string(level) +
                                      "'; expected trace, debug, info, warn, error or off");
  }
  spdlog::drop("baton");  // of an earlier call; spdlog throws when a name is taken
  auto logger = sink == nullptr ? spdlog::stderr_color_mt("baton")
                                : std::make_shared<spdlog::logger>("baton", std::move(sink));
  if (format == LogFormat::kJson) {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<JsonMessage>('*').add_flag<ProgramName>('N').set_pattern(
        R"({"ts":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","program":%N,"pid":%P,"msg":%*})");
    logger->set_formatter(std::move(formatter));
  } else {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<OneLineMessage>('*').set_pattern("%Y-%m-%d %H:%M:%S.%e %^%L%$ %*");
    logger->set_formatter(std::move(formatter));
  }
  logs_json = format == LogFormat::kJson;
  logger->set_level(parsed);
  spdlog::set_default_logger(std::move(logger));
  return absl::OkStatus();
}

}  // namespace baton::base
