#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/config/bind.h"

namespace baton {

inline absl::Status ParseWorker(const std::vector<std::string>& arguments, WorkerFlags* flags) {
  FlagSet set("baton-decode", "decode", "");
  BindWorker(&set, flags);
  return set.Parse(arguments, {});
}

// The flags of a decode worker, behind its model.
inline absl::Status ParseDecode(std::vector<std::string> arguments, WorkerFlags* flags) {
  FlagSet set("baton-decode", "decode", "");
  BindDecodeWorker(&set, flags);
  arguments.insert(arguments.begin(), "m");
  return set.Parse(arguments, {});
}

inline std::string DecodeError(std::vector<std::string> arguments, WorkerFlags* flags) {
  return std::string(ParseDecode(std::move(arguments), flags).message());
}

inline absl::Status ParseRouter(const std::vector<std::string>& arguments, RouterFlags* flags) {
  FlagSet set("baton-router", "router", "");
  BindRouter(&set, flags);
  return set.Parse(arguments, {});
}

inline std::string WorkerError(const std::vector<std::string>& arguments) {
  WorkerFlags flags;
  return std::string(ParseWorker(arguments, &flags).message());
}

}  // namespace baton
