#pragma once

#include <functional>
#include <list>
#include <string>

#include "absl/status/status.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/ip/v6_only.hpp"
#include "boost/asio/steady_timer.hpp"

namespace baton {

// Accepts connections on one port of every address that a host name means.
class Listener final {
 public:
  explicit Listener(boost::asio::io_context* context) : context_(*context) {}

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
  // As errno.
  int Open(const boost::asio::ip::tcp::endpoint& endpoint);
  void AcceptNext(Door* door);

  boost::asio::io_context& context_;
  int port_ = 0;
  std::list<Door> doors_;
  std::function<boost::asio::io_context&()> next_;
  std::function<void(boost::asio::ip::tcp::socket)> accepted_;
  bool short_of_files_ = false;  // and it was said
};

}  // namespace baton
