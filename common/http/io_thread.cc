#include "common/http/io_thread.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "boost/asio/post.hpp"

namespace baton {
namespace {

using boost::asio::ip::tcp;

// Beyond the bound so many are told so at a time, and others just closed.
constexpr size_t kRefusedAtOnce = 64;
constexpr base::Duration kMostBetweenSweeps = std::chrono::milliseconds(250);

base::Duration BetweenSweeps(const HttpLimits& limits) {
  const base::Duration shortest =
      std::min({limits.header_time, limits.body_time, limits.idle_time, limits.slow_client});
  return std::clamp<base::Duration>(shortest / 4, std::chrono::milliseconds(5), kMostBetweenSweeps);
}

// The same connection, whose events `context` sees.
tcp::socket MovedTo(boost::asio::io_context* context, tcp::socket socket) {
  if (socket.get_executor() == context->get_executor()) return socket;
  boost::system::error_code error;
  const tcp::endpoint own = socket.local_endpoint(error);
  tcp::socket moved(*context);
  const int fd = error ? -1 : socket.release(error);
  if (!error && moved.assign(own.protocol(), fd, error)) close(fd);
  return moved;  // what could not be moved is closed
}

}  // namespace

IoThread::IoThread(HttpServerShared* shared, std::unique_ptr<TlsStreams> tls, size_t most)
    : shared_(shared),
      tls_(std::move(tls)),
      most_(most),
      work_(context_.get_executor()),
      sweep_(context_) {}

IoThread::~IoThread() {
  Stop();
  while (!connections_.empty()) std::shared_ptr(connections_.begin()->second)->Close();
}

void IoThread::Run() {
  SweepSoon();
  thread_ = std::thread([this] { context_.run(); });
}

void IoThread::Stop() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

void IoThread::AddSocket(tcp::socket socket) {
  ++load_;
  boost::asio::post(context_, [this, socket = MovedTo(&context_, std::move(socket))]() mutable {
    if (!Adopt(std::move(socket))) --load_;
  });
}

bool IoThread::MakeRoom() {
  if (connections_.size() < most_) return true;
  const auto& line = spare_.empty() ? receiving_ : spare_;
  if (line.empty()) return false;
  const std::shared_ptr<Connection> longest = connections_.at(line.front());
  if (spare_.empty() && connections_.size() < most_ + kRefusedAtOnce) {
    longest->RefuseForOthers();  // and is spare, once it has been told
  } else {
    longest->Close();
  }
  return true;
}

bool IoThread::Adopt(tcp::socket socket) {
  if (!socket.is_open()) return false;
  if (shared_->going_away) return false;
  const bool room = MakeRoom();
  if (!room) {
    ++shared_->refused;
    if (tls_ != nullptr || connections_.size() >= most_ + kRefusedAtOnce) return false;
  }
  const int fd = socket.native_handle();
  std::unique_ptr<ByteStream> stream = tls_ == nullptr ? MakePlainStream(fd) : tls_->Make(fd);
  if (stream == nullptr) return false;
  const auto connection = std::make_shared<Connection>(this, std::move(socket), std::move(stream));
  connections_.emplace(connection.get(), connection);
  ++shared_->open;
  connection->Start(!room);
  return true;
}

void IoThread::PutInto(std::list<Connection*>* line, Connection* connection) {
  if (connection->place) return;
  connection->place = {.line = line, .at = line->insert(line->end(), connection)};
}

void IoThread::MarkSpare(Connection* connection) { PutInto(&spare_, connection); }

void IoThread::MarkReceiving(Connection* connection) { PutInto(&receiving_, connection); }

void IoThread::MarkBusy(Connection* connection) {
  const auto place = std::exchange(connection->place, std::nullopt);
  if (place) place->line->erase(place->at);
}

void IoThread::Forget(Connection* connection) {
  MarkBusy(connection);
  if (connections_.erase(connection) == 0) return;
  --load_;
  --shared_->open;
}

void IoThread::SweepSoon() {
  sweep_.expires_after(BetweenSweeps(shared_->options.limits));
  sweep_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    const base::Instant now = shared_->options.clock->Now();
    std::vector<std::shared_ptr<Connection>> due;
    for (const auto& [connection, owner] : connections_) {
      if (connection->IsDue(now)) due.push_back(owner);
    }
    for (const auto& connection : due) connection->Sweep(now);
    SweepSoon();
  });
}

void IoThread::BeginShutdown() {
  boost::asio::post(context_, [this] {
    for (auto next = spare_.begin(); next != spare_.end();) {
      Connection* const connection = *next++;  // closing takes it off the list
      if (connection->IsIdle()) connection->Close();
    }
  });
}

}  // namespace baton
