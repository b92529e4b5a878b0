#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/loopback_listener.h"
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

// As LoadOf, while `meanwhile` runs in a thread of its own: there it may wait for what the load
// does, and end it by setting the flag.
inline LoadResult LoadWhile(const RequestPlan& plan, const LoadOptions& options,
                            StreamClient* client,
                            const std::function<void(std::atomic<bool>* stop)>& meanwhile) {
  std::atomic<bool> stop = false;
  std::thread other([&] { meanwhile(&stop); });
  LoadResult result = RunLoad(plan, options, client, stop, nullptr);
  other.join();
  return result;
}

inline std::string MessageOf(const RequestRecord& record) {
  return std::string(record.status.message());
}

inline int32_t TokensOf(const RequestRecord& record) {
  int32_t tokens = 0;
  for (const Chunk& chunk : record.chunks) tokens += chunk.tokens;
  return tokens;
}

// A loopback port that takes connections and then neither reads nor writes.
class DeafPort final {
 public:
  ~DeafPort() { Close(); }

  // Nobody listens there any more.
  void Close() {
    if (listener_.socket >= 0) close(listener_.socket);
    listener_.socket = -1;
  }
  int port() const { return listener_.port; }

 private:
  testing::LoopbackListener listener_ = testing::ListenOnLoopback(16);
};

}  // namespace baton::bench
