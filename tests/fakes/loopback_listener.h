#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "common/base/check.h"

namespace baton::testing {

// A socket that listens on a free loopback port. Whoever asked for it closes it.
struct LoopbackListener {
  int socket = -1;
  int port = 0;
};

// `backlog` connections may wait to be accepted.
inline LoopbackListener ListenOnLoopback(int backlog) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  BATON_CHECK(listener >= 0 && bind(listener, plain, size) == 0 && listen(listener, backlog) == 0);
  BATON_CHECK(getsockname(listener, plain, &size) == 0);
  return {.socket = listener, .port = ntohs(address.sin_port)};
}

// A socket that is connected to a loopback port; -1 if nobody listens there.
inline int ConnectToLoopback(int port) {
  const int connected = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  if (connect(connected, plain, sizeof(address)) == 0) return connected;
  close(connected);
  return -1;
}

}  // namespace baton::testing
