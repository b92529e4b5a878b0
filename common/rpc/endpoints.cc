#include "common/rpc/endpoints.h"

#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/rpc/server.h"

namespace baton {

using boost::asio::ip::tcp;

absl::StatusOr<std::vector<tcp::endpoint>> EndpointsOf(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int rc = getaddrinfo(host.c_str(), "0", &hints, &found);
  if (rc != 0) {
    return absl::InvalidArgumentError(absl::StrCat("--host '", host, "' cannot be resolved (",
                                                   gai_strerror(rc),
                                                   "); give an address of this machine"));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  std::vector<tcp::endpoint> endpoints;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    tcp::endpoint endpoint;
    if (address->ai_addrlen > endpoint.capacity()) continue;
    std::memcpy(endpoint.data(), address->ai_addr, address->ai_addrlen);
    endpoint.resize(address->ai_addrlen);
    // A second line of /etc/hosts says the same.
    if (std::find(endpoints.begin(), endpoints.end(), endpoint) == endpoints.end()) {
      endpoints.push_back(endpoint);
    }
  }
  return endpoints;
}

absl::Status CannotListen(const std::string& host, int port, const std::string& flag, int error) {
  const std::string address = JoinHostPort(host, port);
  if (error == EADDRINUSE) {
    return absl::AlreadyExistsError(absl::StrCat(address, " is in use; stop its owner or give ",
                                                 "another ", flag, " (0 = any free one)"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "cannot listen on ", address, ": ", std::strerror(error), "; give another --host or ", flag));
}

}  // namespace baton
