#include "tools/serve/reserved_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace baton {

absl::StatusOr<ReservedPort> ReservedPort::Reserve() {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof(address);
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  // A socket that does not listen lets another one with the same option bind beside it.
  const int on = 1;
  if (fd.get() < 0 || setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      bind(fd.get(), plain, size) != 0 || getsockname(fd.get(), plain, &size) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no free port: ", std::strerror(errno),
                     "; check net.ipv4.ip_local_port_range and the limit of open files"));
  }
  return ReservedPort(std::move(fd), ntohs(address.sin_port));
}

}  // namespace baton
