#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton {

// What a server prints on stdout, once, when it listens. Addresses are host:port.
struct ReadyLine {
  // What /readyz says at that moment. A worker listens once it is ready; a router may have to wait
  // for a worker.
  bool ready = true;
  std::string role;  // router, prefill or decode
  int64_t pid = 0;
  std::string grpc;
  std::string admin;
  std::string http;  // of a router that serves it

  bool operator==(const ReadyLine&) const = default;
};

// {"ready":true,"role":"decode","pid":7,"grpc":"127.0.0.1:50053","admin":"127.0.0.1:8082"}, no
// newline; with "http" behind "admin" where that is served.
std::string FormatReadyLine(const ReadyLine& ready);
// Empty for any other line.
std::optional<ReadyLine> ParseReadyLine(std::string_view line);

// Writes the line, with the pid of this process, to stdout and flushes.
void PrintReadyLine(ReadyLine ready);

}  // namespace baton
