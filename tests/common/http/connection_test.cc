// A connection over a stream that says what a socket says too rarely.
#include "common/http/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <string_view>
#include <utility>

#include "boost/asio/post.hpp"
#include "common/http/io_thread.h"
#include "gtest/gtest.h"
#include "tests/fakes/eventually.h"

namespace baton {
namespace {

struct StuckCalls {
  std::atomic<int> writes{0};
  std::atomic<bool> closed{false};
  std::atomic<int> late{0};  // once it was closed
};

// Reads one request, and takes nothing of its answer until the other end closes.
class StuckStream final : public ByteStream {
 public:
  StuckStream(int fd, StuckCalls* calls) : fd_(fd), calls_(*calls) {}

  StreamResult Handshake() override { return StreamResult::kDone; }
  StreamResult Read(char* data, size_t, size_t* got) override {
    calls_.late += calls_.closed ? 1 : 0;
    if (std::exchange(asked_, true)) return StreamResult::kWantRead;
    constexpr std::string_view kAsk = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    std::memcpy(data, kAsk.data(), kAsk.size());
    *got = kAsk.size();
    return StreamResult::kDone;
  }
  StreamResult Write(std::string_view, size_t*) override {
    ++calls_.writes;
    calls_.late += calls_.closed ? 1 : 0;
    char byte = 0;
    const bool open = recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
    if (open) return StreamResult::kWantWrite;
    calls_.closed = true;
    return StreamResult::kClosed;
  }
  void CloseWriting() override {}
  bool has_certificate() const override { return false; }
  std::vector<std::string> certificate_names() const override { return {}; }

 private:
  const int fd_;
  StuckCalls& calls_;
  bool asked_ = false;
};

// That both of its waits end at once is what happens where a client resets its connection. The
// number of the closed socket may be that of another connection by then.
TEST(Connection, LeavesItsStreamAloneOnceItIsClosed) {
  base::ManualClock clock;
  HttpServerShared shared;
  shared.options.clock = &clock;
  shared.handler = [](const std::shared_ptr<HttpExchange>& exchange) {
    exchange->Reply({.status = 200, .body = "x"});
  };
  StuckCalls calls;
  IoThread thread(&shared, nullptr, 1);
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  // Full, so that it can be written no sooner than read.
  while (send(ends[0], &ends, sizeof(ends), MSG_DONTWAIT) > 0) {
  }
  boost::asio::ip::tcp::socket socket(thread.context());
  socket.assign(boost::asio::ip::tcp::v4(), ends[0]);
  boost::asio::post(thread.context(), [connection = std::make_shared<Connection>(
                                           &thread, std::move(socket),
                                           std::make_unique<StuckStream>(ends[0], &calls))] {
    connection->Start(false);
  });
  thread.Run();
  ASSERT_TRUE(Eventually([&] { return calls.writes > 0; }));
  close(ends[1]);
  ASSERT_TRUE(Eventually([&] { return calls.closed.load(); }));
  // What was ready beside it has run when this has.
  std::promise<void> ran;
  boost::asio::post(thread.context(), [&ran] { ran.set_value(); });
  ran.get_future().wait();
  EXPECT_EQ(calls.late, 0);
}

}  // namespace
}  // namespace baton
