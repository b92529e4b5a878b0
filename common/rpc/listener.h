#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/ip/v6_only.hpp"
#include "boost/asio/steady_timer.hpp"

namespace baton {

struct ListenerOptions {
  std::string flag;  // that messages name the port by
  // How many times FilesKept a connection must leave to others, or it is closed at once.
  size_t leaves = 1;
};

// Accepts connections on one port of every address that a host name means. When the process may
// open no more files it pauses and tries again, and while few are left it closes what comes; the
// log says so.
class Listener final {
 public:
  Listener(boost::asio::io_context* context, ListenerOptions options)
      : context_(*context), options_(std::move(options)) {}

  // Port 0 takes any one that is free on all of them.
  absl::Status Listen(const std::string& host, int port);
  int port() const { return port_; }
  // `next` names who gets the next connection, `accepted` gives it there; both in the context.
  void Accept(std::function<boost::asio::io_context&()> next,
              std::function<void(boost::asio::ip::tcp::socket)> accepted);
  // In the context, or once it has stopped.
  void Close();

 private:
  struct Door {
    explicit Door(boost::asio::io_context& context) : acceptor(context), pause(context) {}
    boost::asio::ip::tcp::acceptor acceptor;
    boost::asio::steady_timer pause;
  };
  // A trouble that comes in spells: it is told at once, and then once a minute.
  struct Trouble {
    int64_t count = 0;
    std::chrono::steady_clock::time_point quiet_until{};
    bool ToBeTold();
  };
  // As errno.
  int Open(const boost::asio::ip::tcp::endpoint& endpoint);
  int OpenDoor(const boost::asio::ip::tcp::endpoint& endpoint);
  void AcceptNext(Door* door);
  bool LeavesFiles(int descriptor);

  boost::asio::io_context& context_;
  const ListenerOptions options_;
  int port_ = 0;
  std::list<Door> doors_;
  std::function<boost::asio::io_context&()> next_;
  std::function<void(boost::asio::ip::tcp::socket)> accepted_;
  Trouble waited_;
  Trouble closed_;
};

}  // namespace baton
