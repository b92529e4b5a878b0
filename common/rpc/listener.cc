#include "common/rpc/listener.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/descriptors.h"
#include "common/rpc/endpoints.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

using boost::asio::ip::tcp;

// Connections that the kernel keeps until they are accepted; it has a limit of its own, too.
constexpr int kBacklog = 4096;
// A free port of one address may be in use on another.
constexpr int kPortTries = 16;
constexpr std::chrono::milliseconds kPause{100};
constexpr std::chrono::minutes kTellEvery{1};

}  // namespace

bool Listener::Trouble::ToBeTold() {
  ++count;
  const auto now = std::chrono::steady_clock::now();
  if (now < quiet_until) return false;
  quiet_until = now + kTellEvery;
  return true;
}

int Listener::OpenDoor(const tcp::endpoint& endpoint) {
  Door& door = doors_.emplace_back(context_);
  boost::system::error_code error;
  door.acceptor.open(endpoint.protocol(), error);
  if (!error) fcntl(door.acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
  if (!error) door.acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && endpoint.address().is_v6() && endpoint.address().is_unspecified()) {
    door.acceptor.set_option(boost::asio::ip::v6_only(false), error);
  }
  if (!error) door.acceptor.bind(endpoint, error);
  if (!error) door.acceptor.listen(kBacklog, error);
  if (error) doors_.pop_back();
  return error.value();
}

int Listener::Open(const tcp::endpoint& endpoint) {
  // All of IPv4 is all of IPv6, too, where a machine has both.
  const bool all_of_ipv4 = endpoint.address().is_v4() && endpoint.address().is_unspecified();
  if (all_of_ipv4 && OpenDoor({tcp::v6(), endpoint.port()}) == 0) return 0;
  return OpenDoor(endpoint);
}

absl::Status Listener::Listen(const std::string& host, int port) {
  BATON_ASSIGN_OR_RETURN(const std::vector<tcp::endpoint> endpoints, EndpointsOf(host));
  int first_error = 0;
  for (int attempt = 0; attempt < kPortTries; ++attempt) {
    doors_.clear();
    port_ = port;
    bool in_use = false;
    for (tcp::endpoint endpoint : endpoints) {
      endpoint.port(static_cast<unsigned short>(port_));
      const int error = Open(endpoint);
      if (error == 0 && port_ == 0) port_ = doors_.back().acceptor.local_endpoint().port();
      if (error != 0 && first_error == 0) first_error = error;
      in_use = in_use || error == EADDRINUSE;
    }
    if (in_use && port == 0) continue;
    if (in_use) return CannotListen(host, port, options_.flag, EADDRINUSE);
    // A name may also mean an address of a family that this machine does not have.
    if (!doors_.empty()) return absl::OkStatus();
    break;
  }
  return CannotListen(host, port, options_.flag, first_error);
}

void Listener::Accept(std::function<boost::asio::io_context&()> next,
                      std::function<void(tcp::socket)> accepted) {
  next_ = std::move(next);
  accepted_ = std::move(accepted);
  for (Door& door : doors_) AcceptNext(&door);
}

// The system gives the lowest number that is free, so a new one says how many files are open.
bool Listener::LeavesFiles(int descriptor) {
  const size_t limit = DescriptorLimit();
  const size_t kept = options_.leaves * FilesKept(limit);
  if (static_cast<size_t>(descriptor) + kept < limit) return true;
  if (closed_.ToBeTold()) {
    spdlog::error(
        "connections to {} are closed as they come, {} by now: this process may open {} files and "
        "keeps the last {} for other work; raise its limit (ulimit -n)",
        options_.flag, closed_.count, limit, kept);
  }
  return false;
}

void Listener::AcceptNext(Door* door) {
  door->acceptor.async_accept(
      next_(), [this, door](const boost::system::error_code& error, tcp::socket socket) {
        if (!door->acceptor.is_open() || error == boost::asio::error::operation_aborted) return;
        if (!error) {
          if (LeavesFiles(socket.native_handle())) accepted_(std::move(socket));
          return AcceptNext(door);
        }
        const bool no_files = error.value() == EMFILE || error.value() == ENFILE;
        if (no_files && waited_.ToBeTold()) {
          spdlog::error(
              "connections to {} wait because this process may open no more than {} files; raise "
              "its limit (ulimit -n)",
              options_.flag, DescriptorLimit());
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
