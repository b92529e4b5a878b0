#include "common/rpc/library_log.h"

#include <cstdlib>
#include <string>
#include <string_view>

#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

using ProtobufLevel = google::protobuf::LogLevel;

void Forward(spdlog::level::level_enum level, const char* library, std::string_view message,
             std::string_view file, int line) {
  while (message.ends_with('\n')) message.remove_suffix(1);
  file.remove_prefix(file.rfind('/') + 1);  // without a slash this removes nothing
  spdlog::log(level, "{}: {} ({}:{})", library, message, file, line);
}

void ForwardGrpc(gpr_log_func_args* said) {
  auto level = spdlog::level::err;
  if (said->severity == GPR_LOG_SEVERITY_INFO) level = spdlog::level::info;
  if (said->severity == GPR_LOG_SEVERITY_DEBUG) level = spdlog::level::debug;
  Forward(level, "gRPC", said->message, said->file, said->line);
}

void ForwardProtobuf(ProtobufLevel severity, const char* file, int line,
                     const std::string& message) {
  auto level = spdlog::level::err;
  if (severity == ProtobufLevel::LOGLEVEL_INFO) level = spdlog::level::info;
  if (severity == ProtobufLevel::LOGLEVEL_WARNING) level = spdlog::level::warn;
  Forward(level, "protobuf", message, file, line);
}

}  // namespace

void LogWhatLibrariesSay() {
  spdlog::default_logger();  // made now, so that it goes after what is registered below
  gpr_set_log_function(ForwardGrpc);
  google::protobuf::SetLogHandler(ForwardProtobuf);
  // gRPC's threads go on while the process exits, when there is no log any more.
  static const int registered = std::atexit([] {
    gpr_set_log_function([](gpr_log_func_args*) {});
    google::protobuf::SetLogHandler(nullptr);
  });
  static_cast<void>(registered);
}

}  // namespace baton
