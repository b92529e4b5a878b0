#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton {

// Every address behind `target`: an IP address with port stands for itself, a name with port (with
// or without "dns:///") for all its A and AAAA records. Sorted, each once, as host:port with IPv6
// hosts in brackets. Blocks for as long as the system's resolver does.
absl::StatusOr<std::vector<std::string>> ResolveTarget(const std::string& target);

// The same for what needs no resolver and therefore never blocks: an IP address with port, or what
// is not of the form of a target. Empty for a name.
std::optional<absl::StatusOr<std::vector<std::string>>> ResolveLiteral(const std::string& target);

}  // namespace baton
