// A peer whose machine has stopped: the connection takes no more bytes.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "common/transport/grpc_stream.h"
#include "grpc/grpc.h"
#include "tests/common/transport/push_fakes.h"
#include "tests/fakes/eventually.h"

namespace baton {
namespace {

// Accepts one connection, opens all HTTP/2 windows, and reads nothing.
class DeafServer final {
 public:
  DeafServer() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_, raw, sizeof address), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    socklen_t size = sizeof address;
    EXPECT_EQ(getsockname(listener_, raw, &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { Accept(); });
  }
  ~DeafServer() {
    HangUp();
    close(listener_);
  }

  const std::string& address() const { return address_; }
  void HangUp() {
    if (!thread_.joinable()) return;
    thread_.join();
    close(connection_);
  }

 private:
  void Accept() {
    connection_ = accept(listener_, nullptr, nullptr);
    // SETTINGS: INITIAL_WINDOW_SIZE and MAX_FRAME_SIZE at their limits. WINDOW_UPDATE of stream 0.
    const std::string frames(
        "\0\0\x0c\x04\0\0\0\0\0"
        "\0\x04\x7f\xff\xff\xff"
        "\0\x05\0\xff\xff\xff"
        "\0\0\x04\x08\0\0\0\0\0"
        "\x7f\xfe\0\0",
        9 + 12 + 9 + 4);
    EXPECT_EQ(send(connection_, frames.data(), frames.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(frames.size()));
  }

  int listener_;
  int connection_ = -1;
  std::string address_;
  std::thread thread_;
};

TEST(StuckPeerTest, APushIsNotDoneWhileTheConnectionStillHoldsItsSources) {
  // This holds gRPC for good: the library's shutdown may wait 10 s for the poller of a connection
  // that broke.
  grpc_init();
  base::SteadyClock clock;
  const std::string memory(kMaxPieceBytes, 'x');
  GrpcStreamTransport transport({}, &clock);
  DeafServer server;
  auto observer = std::make_shared<Observer>();
  auto push = transport.Open(server.address(), {.ticket = Ticket::Draw(1)}, observer);
  // More than the buffers of a socket hold.
  push->Send(std::vector<KvSource>(64, {0, {std::as_bytes(std::span(memory))}}));
  const auto stuck = std::chrono::milliseconds(500);
  ASSERT_TRUE(Eventually(
      [&] {
        const base::Instant since = push->waiting_since();
        return since != base::kNever && clock.Now() - since >= stuck;
      },
      std::chrono::seconds(20)))
      << "the push does not feel its peer";
  push->Cancel();
  EXPECT_FALSE(observer->WaitFor(std::chrono::milliseconds(200)));
  server.HangUp();
  EXPECT_EQ(observer->Wait().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace baton
