#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "tests/fakes/loopback_listener.h"

namespace baton::testing {

// Another loopback address of a server: carries bytes between its own port and the server's, until
// the way is cut, or holds them back.
class TcpRelay final {
 public:
  explicit TcpRelay(int server_port)
      : server_port_(server_port), listener_(ListenOnLoopback(/*backlog=*/16)) {
    BATON_CHECK(wake_ >= 0);
    thread_ = std::thread([this] { Run(); });
  }
  ~TcpRelay() {
    stopping_ = true;
    Wake();
    thread_.join();
    close(listener_.socket);
    close(wake_);
  }
  TcpRelay(const TcpRelay&) = delete;
  TcpRelay& operator=(const TcpRelay&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(listener_.port); }
  // Closes the connections that are there; new ones may be made. Returns when they are closed.
  void Cut() {
    const int64_t seen = cuts_;
    cut_ = true;
    Wake();
    cuts_.wait(seen);
  }
  // While it refuses, a new connection is closed at once.
  void Refuse(bool refuse) { refuse_ = refuse; }
  // From now on all connections stay open and nothing arrives, as when a machine vanishes.
  void Hold() {
    held_ = true;
    Wake();
  }

 private:
  using Ends = std::pair<int, int>;  // the sockets to the client and to the server

  void Wake() {
    const uint64_t one = 1;
    BATON_CHECK(write(wake_, &one, sizeof(one)) == sizeof(one));
  }

  void Run() {
    while (!stopping_) {
      std::vector<pollfd> polled{{wake_, POLLIN, 0}, {listener_.socket, POLLIN, 0}};
      for (const auto& [client, server] : ways_) {
        polled.push_back({Polled(client), POLLIN, 0});
        polled.push_back({Polled(server), POLLIN, 0});
      }
      poll(polled.data(), polled.size(), -1);
      uint64_t ignored = 0;
      if (polled[0].revents != 0) BATON_CHECK(read(wake_, &ignored, sizeof(ignored)) > 0);
      size_t at = 2;
      for (auto way = ways_.begin(); way != ways_.end(); at += 2) {
        const bool open = Carry(polled[at], way->second) && Carry(polled[at + 1], way->first);
        if (!open) Close(*way);
        way = open ? std::next(way) : ways_.erase(way);
      }
      if (polled[1].revents != 0) Accept();
      if (cut_.exchange(false)) CloseAll();
    }
    CloseAll();
  }

  // poll() passes over sockets below 0.
  int Polled(int socket) const { return held_ ? -1 : socket; }

  // False at the end of what `from` brings.
  static bool Carry(const pollfd& from, int to) {
    if (from.revents == 0) return true;
    char bytes[1 << 14];
    const ssize_t count = read(from.fd, bytes, sizeof(bytes));
    for (ssize_t sent = 0; sent < count;) {
      const ssize_t now = send(to, bytes + sent, static_cast<size_t>(count - sent), MSG_NOSIGNAL);
      if (now <= 0) return false;
      sent += now;
    }
    return count > 0;
  }

  void Accept() {
    const int client = accept4(listener_.socket, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    const int server = refuse_ ? -1 : ConnectToLoopback(server_port_);
    if (server >= 0) {
      ways_.emplace_back(client, server);
    } else {
      close(client);
    }
  }

  static void Close(const Ends& way) {
    close(way.first);
    close(way.second);
  }

  void CloseAll() {
    for (const Ends& way : ways_) Close(way);
    ways_.clear();
    ++cuts_;
    cuts_.notify_all();
  }

  const int server_port_;
  const LoopbackListener listener_;
  const int wake_ = eventfd(0, EFD_CLOEXEC);
  std::atomic<bool> stopping_{false}, cut_{false}, refuse_{false}, held_{false};
  std::atomic<int64_t> cuts_{0};
  std::list<Ends> ways_;  // of the thread
  std::thread thread_;
};

}  // namespace baton::testing
