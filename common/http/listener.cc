#include "common/http/listener.h"

#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/server.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

using boost::asio::ip::tcp;

// Connections that the kernel keeps until they are accepted; it has a limit of its own, too.
constexpr int kBacklog = 4096;
// A free port of one address may be in use on another.
constexpr int kPortTries = 16;
constexpr std::chrono::milliseconds kPause{100};

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
    if (std::find(endpoints.begin(), endpoints.end(), endpoint) == endpoints.end()) {
      endpoints.push_back(endpoint);
    }
  }
  return endpoints;
}

}  // namespace

int Listener::Open(const tcp::endpoint& endpoint) {
  Door& door = doors_.emplace_back(context_);
  boost::system::error_code error;
  door.acceptor.open(endpoint.protocol(), error);
  if (!error) door.acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  // As gRPC has it: the address of all of IPv6 is that of all of IPv4, too.
  if (!error && endpoint.address().is_v6() && endpoint.address().is_unspecified()) {
    door.acceptor.set_option(boost::asio::ip::v6_only(false), error);
  }
  if (!error) door.acceptor.bind(endpoint, error);
  if (!error) door.acceptor.listen(kBacklog, error);
  if (error) doors_.pop_back();
  return error.value();
}

absl::Status Listener::Listen(const std::string& host, int port) {
  auto endpoints = EndpointsOf(host);
  if (!endpoints.ok()) return endpoints.status();
  int first_error = 0;
  for (int attempt = 0; attempt < kPortTries; ++attempt) {
    doors_.clear();
    port_ = port;
    bool in_use = false;
    for (tcp::endpoint endpoint : *endpoints) {
      endpoint.port(static_cast<unsigned short>(port_));
      const int error = Open(endpoint);
      if (error == 0 && port_ == 0) port_ = doors_.back().acceptor.local_endpoint().port();
      if (error != 0 && first_error == 0) first_error = error;
      in_use = in_use || error == EADDRINUSE;
    }
    if (in_use && port == 0) continue;
    if (in_use) {
      return absl::AlreadyExistsError(absl::StrCat(JoinHostPort(host, port),
                                                   " is in use; stop its owner or give another "
                                                   "--http-port (0 = any free one)"));
    }
    // A name may also mean an address of a family that this machine does not have.
    if (!doors_.empty()) return absl::OkStatus();
    break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("cannot listen for HTTP on ", JoinHostPort(host, port), ": ",
                   std::strerror(first_error), "; give another --host or --http-port"));
}

void Listener::Accept(std::function<boost::asio::io_context&()> next,
                      std::function<void(tcp::socket)> accepted) {
  next_ = std::move(next);
  accepted_ = std::move(accepted);
  for (Door& door : doors_) AcceptNext(&door);
}

void Listener::AcceptNext(Door* door) {
  door->acceptor.async_accept(
      next_(), [this, door](const boost::system::error_code& error, tcp::socket socket) {
        if (!door->acceptor.is_open() || error == boost::asio::error::operation_aborted) return;
        if (!error) {
          accepted_(std::move(socket));
          return AcceptNext(door);
        }
        const bool no_files = error.value() == EMFILE || error.value() == ENFILE;
        if (no_files && !std::exchange(short_of_files_, true)) {
          spdlog::error(
              "HTTP connections wait because this process may open no more files; raise its "
              "limit (ulimit -n) or lower --http-max-connections");
        }
        door->pause.expires_after(kPause);
        door->pause.async_wait([this, door](const boost::system::error_code& stopped) {
          if (!stopped) AcceptNext(door);
        });
      });
}

void Listener::Close() {
  for (Door& door : doors_) {
    boost::system::error_code error;
    door.acceptor.close(error);
    door.pause.cancel();
  }
}

}  // namespace baton
