#include "common/config/unknown_variables.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "absl/strings/str_cat.h"
#include "common/config/edit_distance.h"

namespace baton {
namespace {

constexpr std::string_view kPrefix = "BATON_";

// Settings of some commands that are spelled much like those of others. One environment may serve
// several commands, so these are nobody's mistakes.
constexpr std::array<std::string_view, 21> kOfOtherCommands = {
    "BATON_API_KEY", "BATON_DEVICE",   "BATON_MIN_TOKENS",  "BATON_MODE",         "BATON_MODEL",
    "BATON_PART",    "BATON_PORT",     "BATON_PREDICT",     "BATON_PREDICTOR",    "BATON_PROMPT",
    "BATON_REQUEST", "BATON_REQUESTS", "BATON_SCHEMA",      "BATON_SCHEME",       "BATON_SEED",
    "BATON_SEEDS",   "BATON_SERVICE",  "BATON_TEMPERATURE", "BATON_TEMPERATURES", "BATON_THREADS",
    "BATON_TOP_K"};

// Whether `text` begins with a number, and one of TCP, UDP and SCTP after it: "80_TCP_ADDR".
bool IsPortAndProtocol(std::string_view text) {
  const size_t digits =
      std::find_if(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) == 0; }) -
      text.begin();
  if (digits == 0) return false;
  text.remove_prefix(digits);
  return text.starts_with("_TCP") || text.starts_with("_UDP") || text.starts_with("_SCTP");
}

// Whether Kubernetes makes variables of this form for its services: NAME_SERVICE_HOST,
// NAME_SERVICE_PORT, NAME_SERVICE_PORT_GRPC, NAME_PORT with a link, NAME_PORT_80_TCP_ADDR.
bool IsOfAService(std::string_view name, std::string_view value) {
  constexpr std::string_view kPort = "_PORT_";
  if (IsServiceLink(value) || name.ends_with("_SERVICE_HOST")) return true;
  if (name.ends_with("_SERVICE_PORT") || name.find("_SERVICE_PORT_") != name.npos) return true;
  const size_t port = name.find(kPort);
  return port != name.npos && IsPortAndProtocol(name.substr(port + kPort.size()));
}

// The known name that differs in at most two characters, and in at most one of three of what is
// behind the prefix; empty when there is none.
std::string VeryNear(std::string_view name, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(name, known);
  if (nearest.empty()) return nearest;
  const size_t distance = EditDistance(name, nearest);
  return distance <= 2 && 3 * distance <= name.size() - kPrefix.size() ? nearest : "";
}

}  // namespace

bool IsServiceLink(std::string_view value) {
  constexpr std::array<std::string_view, 3> kSchemes = {"tcp://", "udp://", "sctp://"};
  return std::any_of(kSchemes.begin(), kSchemes.end(),
                     [value](std::string_view scheme) { return value.starts_with(scheme); });
}

std::vector<std::string> UnknownVariableWarnings(
    const std::map<std::string, std::string>& environment, const std::vector<std::string>& known) {
  std::vector<std::string> warnings;
  for (const auto& [name, value] : environment) {
    if (!name.starts_with(kPrefix) || value.empty() || IsOfAService(name, value)) continue;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (std::find(kOfOtherCommands.begin(), kOfOtherCommands.end(), name) !=
        kOfOtherCommands.end()) {
      continue;
    }
    const std::string near = VeryNear(name, known);
    if (near.empty()) continue;
    warnings.push_back(absl::StrCat(name, " is ignored: no setting has this name. Try: ", near));
  }
  return warnings;
}

}  // namespace baton
