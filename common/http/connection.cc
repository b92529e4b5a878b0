#include "common/http/connection.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "boost/asio/post.hpp"
#include "common/http/io_thread.h"

namespace baton {
namespace {

// After the last answer the client has so long, and so many bytes, to see it and close: closed at
// once with something unread, the kernel would take the answer back.
constexpr base::Duration kLingerTime = std::chrono::seconds(2);
constexpr size_t kLingerBytes = size_t{4} << 20;
// What the kernel holds of an answer that the client does not take.
constexpr int kSendBufferBytes = 256 << 10;

// Peers that vanished without a word are noticed within a minute, also while nothing is sent.
void ConfigureSocket(int fd) {
  const auto set = [fd](int level, int name, int value) {
    setsockopt(fd, level, name, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_SNDBUF, kSendBufferBytes);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 60'000);
}

std::string PeerOf(const boost::asio::ip::tcp::socket& socket) {
  boost::system::error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  if (error) return "unknown";
  namespace ip = boost::asio::ip;
  ip::address address = endpoint.address();
  // Of a socket for both families; it is one client, whichever socket it comes to.
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = ip::make_address_v4(ip::v4_mapped, address.to_v6());
  }
  const std::string host = address.to_string();
  return address.is_v6() ? absl::StrCat("[", host, "]:", endpoint.port())
                         : absl::StrCat(host, ":", endpoint.port());
}

// That the peer has closed its side of the connection, or broken it. What it sent before may still
// wait, so that reading does not tell.
bool HasHungUp(int fd) {
  pollfd look{.fd = fd, .events = POLLRDHUP, .revents = 0};
  return poll(&look, 1, 0) > 0;
}

}  // namespace

Connection::Connection(IoThread* thread, boost::asio::ip::tcp::socket socket,
                       std::unique_ptr<ByteStream> stream)
    : thread_(thread),
      options_(thread->shared().options),
      socket_(std::move(socket)),
      stream_(std::move(stream)) {}

void Connection::Start(bool refuse) {
  boost::system::error_code error;
  socket_.native_non_blocking(true, error);
  ConfigureSocket(socket_.native_handle());
  peer_ = PeerOf(socket_);
  refused_ = refuse;
  if (refuse) return RefuseForNow("all connections are taken; try again");
  began_ = options_.clock->Now();
  deadline_ = began_ + options_.limits.header_time;
  // Until it has shown itself to be a client, it gives way to others as an idle one does.
  thread_->MarkSpare(this);
  Handshake();
}

void Connection::WaitReadable() {
  if (waits_readable_ || phase_ == Phase::kClosed) return;
  waits_readable_ = true;
  socket_.async_wait(boost::asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       self->waits_readable_ = false;
                       if (!error) self->OnReadable();
                     });
}

void Connection::WaitWritable() {
  if (waits_writable_ || phase_ == Phase::kClosed) return;
  waits_writable_ = true;
  socket_.async_wait(boost::asio::ip::tcp::socket::wait_write,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       self->waits_writable_ = false;
                       if (!error) self->OnWritable();
                     });
}

void Connection::OnReadable() {
  // Both waits of a socket may be over at once, and the other one ended the connection. Its
  // descriptor is perhaps another one's by now.
  if (phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kHandshake) return Handshake();
  if (phase_ == Phase::kLinger) return Discard();
  if (!output_.empty()) {
    Flush();
    Pump();
  }
  ReadMore();
}

void Connection::OnWritable() {
  if (phase_ == Phase::kHandshake) return Handshake();
  if (phase_ == Phase::kClosed || phase_ == Phase::kLinger) return;
  Flush();
  Pump();
  if (std::exchange(read_wants_write_, false)) ReadMore();
}

void Connection::Handshake() {
  switch (stream_->Handshake()) {
    case StreamResult::kDone:
      BecomeIdle();
      return ReadMore();
    case StreamResult::kWantRead:
      return WaitReadable();
    case StreamResult::kWantWrite:
      return WaitWritable();
    case StreamResult::kClosed:
      return Close();
  }
}

void Connection::BecomeIdle() {
  phase_ = Phase::kIdle;
  deadline_ = options_.clock->Now() + options_.limits.idle_time;
  LetGo(&output_);
  thread_->MarkBusy(this);  // it was perhaps spare already; now it is so since this moment
  thread_->MarkSpare(this);
}

void Connection::ReadMore() {
  for (int turn = 0; turn < kTurns; ++turn) {
    if (phase_ == Phase::kClosed) return;
    if (phase_ == Phase::kLinger) return Discard();
    if (phase_ == Phase::kAnswer && input_.size() > options_.limits.header_bytes) {
      read_paused_ = true;
      return;
    }
    auto& scratch = thread_->scratch();
    size_t got = 0;
    switch (stream_->Read(scratch.data(), scratch.size(), &got)) {
      case StreamResult::kDone:
        Consume({scratch.data(), got});
        break;
      case StreamResult::kWantRead:
        return WaitReadable();
      case StreamResult::kWantWrite:
        read_wants_write_ = true;
        return WaitWritable();
      case StreamResult::kClosed:
        return OnPeerGone();
    }
  }
  // Others' turn; TLS may hold bytes of which the socket does not tell.
  boost::asio::post(socket_.get_executor(), [self = shared_from_this()] { self->OnReadable(); });
}

void Connection::Consume(std::string_view bytes) {
  if (input_.empty()) {
    ConsumeView(&bytes);
    input_.assign(bytes);
  } else {
    input_.append(bytes);
    std::string_view view = input_;
    ConsumeView(&view);
    input_.erase(0, input_.size() - view.size());
  }
  if (input_.empty()) LetGo(&input_);
}

void Connection::ConsumeView(std::string_view* view) {
  while (phase_ == Phase::kIdle || phase_ == Phase::kHeader || phase_ == Phase::kBody) {
    if (phase_ == Phase::kIdle) {
      // Some clients end a body with a line of its own.
      while (view->starts_with("\r\n")) view->remove_prefix(2);
      if (view->empty() || *view == "\r") return;
      phase_ = Phase::kHeader;
      deadline_ = options_.clock->Now() + options_.limits.header_time;
      // Of the request before, and not of one whose header cannot be read.
      is_head_ = http_1_0_ = false;
      origin_.clear();
      reader_ =
          std::make_unique<RequestReader>(options_.limits.header_bytes, options_.limits.body_bytes);
    }
    const RequestReader::Progress progress = reader_->Read(view);
    if (progress == RequestReader::Progress::kMore) return CountReceiving();
    if (progress == RequestReader::Progress::kHeader) {
      OnHeader(view->empty());
    } else if (progress == RequestReader::Progress::kDone) {
      Dispatch();
    } else {
      const RequestReader::Failure failure = reader_->failure();
      AnswerFailure(failure.status, failure.message);
    }
  }
}

// A body that is complete with the first read behind its header is the handler's to count. A header
// may be larger than what follows, so it counts as well.
void Connection::CountReceiving() {
  if (phase_ != Phase::kBody) return;
  if (receiving_ == nullptr) {
    receiving_ = std::make_unique<ReceivingBody>(
        &thread_->shared().receiving, Client(),
        [weak = weak_from_this(), executor = socket_.get_executor()] {
          boost::asio::post(executor, [weak] {
            const auto self = weak.lock();
            if (self == nullptr || self->receiving_ == nullptr) return;
            if (self->receiving_->gave_way()) self->RefuseReceiving();
          });
        });
  }
  const size_t bytes = reader_->header_size() + reader_->body_size();
  if (!receiving_->GrowTo(bytes, options_.limits.receiving_bytes)) RefuseReceiving();
}

void Connection::RefuseReceiving() {
  RefuseForNow(
      absl::StrCat("there is no room for more of all bodies that are being received, which may "
                   "have ",
                   options_.limits.receiving_bytes,
                   " bytes; of all clients this one has most; send the request again"));
}

void Connection::RefuseForOthers() {
  RefuseForNow(
      "all connections are taken, and this one has waited longest for the rest of its request; "
      "send it again, all at once");
}

void Connection::RefuseForNow(std::string_view message) {
  HttpReply reply = options_.error_reply(503, message);
  reply.headers.emplace_back("Retry-After", "1");
  Answer(std::move(reply), true);
}

std::string Connection::Client() const {
  if (options_.client_of) return options_.client_of(reader_->request());
  return peer_.substr(0, peer_.rfind(':'));
}

void Connection::OnHeader(bool nothing_behind) {
  thread_->MarkBusy(this);
  HttpRequest& request = reader_->request();
  request.peer = peer_;
  request.has_certificate = stream_->has_certificate();
  request.certificate_names = stream_->certificate_names();
  keep_alive_ = reader_->keep_alive();
  http_1_0_ = reader_->http_1_0();
  is_head_ = request.method == "HEAD";
  if (RefusesHost(request)) return;
  const std::string* const origin = request.Find("Origin");
  const std::string* const host = request.Find("Host");
  origin_.clear();
  if (origin != nullptr && host != nullptr && options_.allow_origin &&
      options_.allow_origin(*origin, *host)) {
    origin_ = *origin;
  }
  if (AnswersPreflight(request)) return;
  if (options_.admit) {
    std::optional<HttpReply> refusal = options_.admit(request, reader_->announced());
    if (refusal) return Answer(*std::move(refusal), reader_->has_body());
  }
  phase_ = Phase::kBody;
  thread_->MarkReceiving(this);
  deadline_ = options_.clock->Now() + options_.limits.body_time;
  if (!reader_->expects_continue() || !nothing_behind) return;
  output_ += "HTTP/1.1 100 Continue\r\n\r\n";
  Flush();
}

void Connection::EnterAnswer() {
  thread_->MarkBusy(this);
  phase_ = Phase::kAnswer;
  ++thread_->shared().answering;
}

void Connection::LeaveAnswer() {
  if (phase_ == Phase::kAnswer) --thread_->shared().answering;
}

void Connection::Dispatch() {
  receiving_.reset();
  HttpRequest request = std::move(reader_->request());
  reader_.reset();
  EnterAnswer();
  deadline_ = base::kNever;
  state_ =
      std::make_shared<ExchangeState>(options_.limits.write_buffer_bytes, options_.clock,
                                      [weak = weak_from_this(), executor = socket_.get_executor()] {
                                        boost::asio::post(executor, [weak] {
                                          if (const auto self = weak.lock()) self->Pump();
                                        });
                                      });
  thread_->shared().handler(std::make_shared<HttpExchange>(std::move(request), state_));
}

void Connection::Linger() {
  phase_ = Phase::kLinger;
  if (!refused_) thread_->MarkSpare(this);
  deadline_ = options_.clock->Now() + kLingerTime;
  LetGo(&input_);
  stream_->CloseWriting();
  boost::asio::post(socket_.get_executor(), [self = shared_from_this()] { self->OnReadable(); });
}

// Reads past TLS, whose side of it is closed.
void Connection::Discard() {
  auto& scratch = thread_->scratch();
  for (int turn = 0; turn < kTurns; ++turn) {
    const ssize_t got = recv(socket_.native_handle(), scratch.data(), scratch.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
    discarded_ += static_cast<size_t>(std::max<ssize_t>(got, 0));
    if (got <= 0 || discarded_ > kLingerBytes) return Close();
  }
  WaitReadable();
}

void Connection::OnPeerGone() {
  const std::shared_ptr<ExchangeState> state = std::move(state_);
  Close();
  if (state != nullptr) state->Gone();
}

void Connection::Close() {
  if (phase_ == Phase::kClosed) return;
  const auto self = shared_from_this();
  LeaveAnswer();
  phase_ = Phase::kClosed;
  if (const auto state = std::move(state_)) state->Gone();
  receiving_.reset();
  boost::system::error_code error;
  socket_.close(error);
  thread_->Forget(this);
}

void Connection::Sweep(base::Instant now) {
  if (read_paused_ && phase_ == Phase::kAnswer && HasHungUp(socket_.native_handle())) {
    return OnPeerGone();
  }
  if (now < deadline_) return;
  deadline_ = base::kNever;
  if (phase_ == Phase::kHeader) {
    AnswerFailure(408, "the request's header did not come in time");
  } else if (phase_ == Phase::kBody) {
    AnswerFailure(408, "the request's body did not come in time");
  } else if (phase_ == Phase::kAnswer) {
    OnPeerGone();
  } else {
    Close();
  }
}

}  // namespace baton
