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

// Whom an origin names, as sockets want it. cpp-httplib, which takes an origin too, reads no IPv6
// address that has letters.
struct HttpAddress {
  bool tls = false;
  std::string host;  // "fd00::2", without the brackets
  int port = 0;      // 80 or 443 where the origin has none
};
// `origin` is that of a URL that was parsed.
HttpAddress AddressOf(std::string_view origin);

}  // namespace baton
