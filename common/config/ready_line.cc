#include "common/config/ready_line.h"

#include <unistd.h>

#include <cstdio>

#include "nlohmann/json.hpp"

namespace baton {

std::string FormatReadyLine(const ReadyLine& ready) {
  nlohmann::ordered_json json = {{"ready", ready.ready},
                                 {"role", ready.role},
                                 {"pid", ready.pid},
                                 {"grpc", ready.grpc},
                                 {"admin", ready.admin}};
  if (!ready.http.empty()) json["http"] = ready.http;
  return json.dump();
}

std::optional<ReadyLine> ParseReadyLine(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("ready") || !json["ready"].is_boolean()) {
    return std::nullopt;
  }
  if (!json.contains("pid") || !json["pid"].is_number_integer()) return std::nullopt;
  ReadyLine ready;
  ready.ready = json["ready"].get<bool>();
  ready.pid = json["pid"].get<int64_t>();
  for (const auto& [key, target] : {std::pair{"role", &ready.role}, std::pair{"grpc", &ready.grpc},
                                    std::pair{"admin", &ready.admin}}) {
    if (!json.contains(key) || !json[key].is_string()) return std::nullopt;
    *target = json[key].get<std::string>();
  }
  if (json.contains("http") && json["http"].is_string()) {
    ready.http = json["http"].get<std::string>();
  }
  return ready;
}

void PrintReadyLine(ReadyLine ready) {
  ready.pid = getpid();
  const std::string line = FormatReadyLine(ready) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

}  // namespace baton
