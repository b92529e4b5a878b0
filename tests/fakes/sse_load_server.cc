#include "tests/fakes/sse_load_server.h"

#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <queue>
#include <string_view>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "tests/fakes/loopback_listener.h"

namespace baton::testing {
namespace {

constexpr int kBacklog = 4096;

std::string ChunkOf(const std::string& event) {
  const std::string data = absl::StrCat("data: ", event, "\n\n");
  return absl::StrCat(absl::Hex(data.size()), "\r\n", data, "\r\n");
}

// The number after `name` in `text`; 0 without one.
int NumberAfter(std::string_view text, std::string_view name) {
  const size_t at = text.find(name);
  return at == std::string_view::npos ? 0 : std::atoi(text.data() + at + name.size());
}

}  // namespace

class SseLoadServer::Impl final {
 public:
  explicit Impl(base::Duration gap) : gap_(gap) { Watch(listener_.socket); }
  ~Impl() {
    for (const auto& [fd, connection] : connections_) close(fd);
    close(listener_.socket);
    close(epoll_);
  }

  int port() const { return listener_.port; }

  void Run(int until_closed) {
    Watch(until_closed);
    std::array<epoll_event, 256> events;
    while (true) {
      const int count =
          epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), MillisecondsToDue());
      for (int i = 0; i < count; ++i) {
        const int fd = events[static_cast<size_t>(i)].data.fd;
        if (fd == until_closed) return;
        if (fd == listener_.socket) {
          Accept();
        } else {
          Read(fd);
        }
      }
      SendWhatIsDue();
    }
  }

 private:
  struct Connection {
    std::string input;
    int64_t number = 0;  // tells a connection from an earlier one with the same fd
    int tokens_left = 0;
    int tokens = 0;
  };
  struct Due {
    base::Instant when;
    int fd;
    int64_t number;
    bool operator<(const Due& other) const { return when > other.when; }
  };

  void Watch(int fd) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    BATON_CHECK(epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0);
  }

  int MillisecondsToDue() const {
    if (due_.empty()) return -1;
    const auto left = due_.top().when - std::chrono::steady_clock::now();
    return std::max(0, static_cast<int>(base::Milliseconds(left) + 0.999));
  }

  void Accept() {
    const int fd = accept4(listener_.socket, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    connections_[fd] = {.input = {}, .number = ++last_number_};
    Watch(fd);
  }

  void Read(int fd) {
    char bytes[16384];
    const ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got <= 0) {
      connections_.erase(fd);
      close(fd);
      return;
    }
    Connection& connection = connections_[fd];
    connection.input.append(bytes, static_cast<size_t>(got));
    const size_t head = connection.input.find("\r\n\r\n");
    if (head == std::string::npos) return;
    const int length = NumberAfter(connection.input.substr(0, head), "Content-Length: ");
    if (connection.input.size() < head + 4 + static_cast<size_t>(length)) return;
    Answer(fd, &connection);
    connection.input.clear();
  }

  void Answer(int fd, Connection* connection) {
    if (connection->input.starts_with("GET")) {
      Send(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
      return;
    }
    Send(
        fd,
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    connection->tokens = connection->tokens_left =
        NumberAfter(connection->input, "\"max_tokens\":");
    due_.push({std::chrono::steady_clock::now() + gap_, fd, connection->number});
  }

  void SendWhatIsDue() {
    while (!due_.empty() && due_.top().when <= std::chrono::steady_clock::now()) {
      const Due due = due_.top();
      due_.pop();
      const auto found = connections_.find(due.fd);
      if (found == connections_.end() || found->second.number != due.number) continue;
      Connection& connection = found->second;
      Send(due.fd, word_);
      if (--connection.tokens_left > 0) {
        due_.push({due.when + gap_, due.fd, due.number});
      } else {
        SendEnd(due.fd, connection.tokens);
      }
    }
  }

  static void SendEnd(int fd, int tokens) {
    Send(fd,
         absl::StrCat(ChunkOf(R"({"id":"1","choices":[{"text":"","finish_reason":"length"}]})"),
                      ChunkOf(absl::StrCat(R"({"id":"1","choices":[],"usage":{"prompt_tokens":3,)",
                                           R"("completion_tokens":)", tokens, "}}")),
                      ChunkOf("[DONE]"), "0\r\n\r\n"));
  }

  static void Send(int fd, const std::string& bytes) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    // A reader that is this far behind is not one to measure.
    BATON_CHECK(sent == static_cast<ssize_t>(bytes.size()) || errno != EAGAIN);
  }

  const base::Duration gap_;
  const int epoll_ = epoll_create1(EPOLL_CLOEXEC);
  const LoopbackListener listener_ = ListenOnLoopback(kBacklog);
  int64_t last_number_ = 0;
  std::unordered_map<int, Connection> connections_;
  std::priority_queue<Due> due_;
  const std::string word_ = ChunkOf(
      R"({"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"measured",)"
      R"("choices":[{"index":0,"text":" word","logprobs":null,"finish_reason":null}]})");
};

SseLoadServer::SseLoadServer(base::Duration gap) : impl_(std::make_unique<Impl>(gap)) {}
SseLoadServer::~SseLoadServer() = default;
std::string SseLoadServer::url() const { return absl::StrCat("http://127.0.0.1:", impl_->port()); }
void SseLoadServer::Run(int until_closed) { impl_->Run(until_closed); }

}  // namespace baton::testing
