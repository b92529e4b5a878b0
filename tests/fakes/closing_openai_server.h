#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "tests/fakes/loopback_listener.h"

namespace baton::testing {

// An OpenAI-compatible server that answers one request of a connection, keeps the connection, and
// closes it when the next request arrives there. So a client meets what happens when its request
// crosses the end of an idle connection. One connection is served at a time, on a loopback port.
class ClosingOpenAiServer final {
 public:
  ClosingOpenAiServer();
  ~ClosingOpenAiServer();

  std::string url() const;
  // How many requests were met by a close.
  int closes() const { return closes_; }

 private:
  void Run();
  void Serve(int connection);

  const LoopbackListener listener_ = ListenOnLoopback(16);
  std::atomic<int> closes_ = 0;
  std::thread thread_;
};

}  // namespace baton::testing
