#pragma once

#include <atomic>
#include <string>
#include <thread>

namespace baton::testing {

// An OpenAI-compatible server that answers one request of a connection, keeps it, and closes it
// when the next arrives there: what a client meets whose request crosses the end of an idle
// connection. Serves one connection at a time, on a loopback port.
class ClosingOpenAiServer final {
 public:
  ClosingOpenAiServer();
  ~ClosingOpenAiServer();

  std::string url() const;
  // Requests that were met by a close.
  int closes() const { return closes_; }

 private:
  void Run();
  void Serve(int connection);

  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> closes_ = 0;
  std::thread thread_;
};

}  // namespace baton::testing
