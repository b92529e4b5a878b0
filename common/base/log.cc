#include "common/base/log.h"

#include <algorithm>
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

// How many bytes of UTF-8 the control character takes that `text` begins with; 0 where it begins
// with another one.
size_t ControlBytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x20 || first == 0x7F) return 1;
  const bool two = first == 0xC2 && text.size() > 1;  // U+0080 to U+009F, which terminals obey
  return two && static_cast<unsigned char>(text[1]) < 0xA0 ? 2 : 0;
}

// Messages hold text from outside. With `%v` alone it could begin lines that look like those of the
// process, and steer a terminal.
class OneLineMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    std::string_view rest(message.payload.data(), message.payload.size());
    while (!rest.empty()) {
      const size_t control = ControlBytes(rest);
      if (control == 0) {
        out.push_back(rest[0]);
      } else {
        const std::string shown = ShownText(rest.substr(0, control));
        out.append(shown.data(), shown.data() + shown.size());
      }
      rest.remove_prefix(std::max<size_t>(control, 1));
    }
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
