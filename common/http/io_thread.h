#pragma once

#include <array>
#include <atomic>
#include <list>
#include <memory>
#include <thread>
#include <unordered_map>

#include "boost/asio/executor_work_guard.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/steady_timer.hpp"
#include "common/http/connection.h"
#include "common/http/http_server.h"
#include "common/http/receiving_bodies.h"
#include "common/http/tls_stream.h"

namespace baton {

// What all connections of a server share. Outlives its I/O threads.
struct HttpServerShared {
  HttpServerOptions options;
  HttpServer::Handler handler;
  std::atomic<bool> going_away{false};
  ReceivingBodies receiving;
  std::atomic<int64_t> open{0};
  std::atomic<int64_t> answering{0};  // connections whose answer is not taken yet
  std::atomic<int64_t> refused{0};
  std::array<std::atomic<int64_t>, 6> answers{};
  std::array<std::atomic<int64_t>, 200> refusals{};  // of the statuses from 400 on
};

// A thread and the connections that it serves. Only load, AddSocket, BeginShutdown and Stop are for
// other threads.
class IoThread final {
 public:
  // `tls` is null for plain text.
  IoThread(HttpServerShared* shared, std::unique_ptr<TlsStreams> tls, size_t most);
  ~IoThread();

  boost::asio::io_context& context() { return context_; }
  void Run();
  // Connections that it has or is about to get.
  size_t load() const { return load_; }
  // Takes over a connection that was accepted in whichever context.
  void AddSocket(boost::asio::ip::tcp::socket socket);
  // Closes the idle connections.
  void BeginShutdown();
  void Stop();

  // For its connections.
  HttpServerShared& shared() { return *shared_; }
  std::array<char, 16'384>& scratch() { return scratch_; }
  // At the bound those give way to the next one that ask for nothing: they are spare from their
  // start, or the end of an answer, until the next request's header is complete, and after their
  // last answer. Without any of these those do whose body is still to come.
  void MarkSpare(Connection* connection);
  void MarkReceiving(Connection* connection);
  void MarkBusy(Connection* connection);
  void Forget(Connection* connection);

 private:
  // False when it could only be closed.
  bool Adopt(boost::asio::ip::tcp::socket socket);
  void PutInto(std::list<Connection*>* line, Connection* connection);
  // Makes room for one more; false when there is none.
  bool MakeRoom();
  void SweepSoon();

  HttpServerShared* const shared_;
  const std::unique_ptr<TlsStreams> tls_;
  const size_t most_;  // connections
  std::atomic<size_t> load_{0};
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  boost::asio::steady_timer sweep_;
  std::array<char, 16'384> scratch_;  // for one read; connections keep what they need
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections_;
  std::list<Connection*> spare_;      // the longest first
  std::list<Connection*> receiving_;  // likewise
  std::thread thread_;
};

}  // namespace baton
