#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "tools/bench/load/load_generator.h"

namespace baton::bench {

constexpr auto kMillisecond = std::chrono::milliseconds(1);

// `count` requests for `tokens` tokens, `gap` apart.
inline RequestPlan PlanOf(int count, int32_t tokens, base::Duration gap = {}) {
  RequestPlan plan;
  for (int i = 0; i < count; ++i) {
    plan.requests.push_back({.index = i,
                             .at = i * gap,
                             .prompt = std::vector<int32_t>{1, 2, 3},
                             .prompt_tokens = 3,
                             .max_tokens = tokens});
  }
  return plan;
}

inline LoadResult LoadOf(const RequestPlan& plan, const LoadOptions& options,
                         StreamClient* client) {
  const std::atomic<bool> stop = false;
  return RunLoad(plan, options, client, stop, nullptr);
}

inline int32_t TokensOf(const RequestRecord& record) {
  int32_t tokens = 0;
  for (const Chunk& chunk : record.chunks) tokens += chunk.tokens;
  return tokens;
}

// A port that takes connections and then neither reads nor writes.
class DeafPort final {
 public:
  DeafPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    BATON_CHECK(bind(socket_, plain, size) == 0 && listen(socket_, 16) == 0);
    BATON_CHECK(getsockname(socket_, plain, &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~DeafPort() { Close(); }

  // Nobody listens there any more.
  void Close() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }
  int port() const { return port_; }

 private:
  int socket_;
  int port_ = 0;
};

inline std::string MessageOf(const RequestRecord& record) {
  return std::string(record.status.message());
}

}  // namespace baton::bench
