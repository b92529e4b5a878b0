#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "boost/asio/ip/tcp.hpp"

namespace baton {

// Every address that `host` means, once, with port 0. INVALID_ARGUMENT when it means none.
absl::StatusOr<std::vector<boost::asio::ip::tcp::endpoint>> EndpointsOf(const std::string& host);

// Why nobody can listen on `port`, which messages name by its `flag`: ALREADY_EXISTS when it is in
// use, else INVALID_ARGUMENT. `error` is errno's.
absl::Status CannotListen(const std::string& host, int port, const std::string& flag, int error);

}  // namespace baton
