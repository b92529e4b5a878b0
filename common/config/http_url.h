#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace baton {

// A URL of HTTP in the two parts that a client needs.
struct HttpUrl {
  std::string origin;  // "https://collector.example:4318"
  std::string path;    // "/v1/traces"; "" where the URL ends with its host or with "/"
};

// INVALID_ARGUMENT says what was found and what was expected: http or https, a host, perhaps a port
// and a path, and neither a user's name nor a query or fragment.
absl::StatusOr<HttpUrl> ParseHttpUrl(std::string_view url);

}  // namespace baton
