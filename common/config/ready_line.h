#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace baton {

// What a server prints on stdout, once, when it takes requests. Addresses are host:port.
struct ReadyLine {
  std::string role;  // router, prefill or decode
  std::string grpc;
  std::string admin;
};

// {"ready":true,"role":"decode","grpc":"127.0.0.1:50053","admin":"127.0.0.1:8082"}, no newline.
std::string FormatReadyLine(const ReadyLine& ready);
// Empty for any other line.
std::optional<ReadyLine> ParseReadyLine(std::string_view line);

// Writes the line to stdout and flushes.
void PrintReadyLine(const ReadyLine& ready);

}  // namespace baton
