#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "boost/asio/ip/tcp.hpp"
#include "common/base/clock.h"
#include "common/http/byte_stream.h"
#include "common/http/exchange_state.h"
#include "common/http/http_server.h"
#include "common/http/receiving_bodies.h"
#include "common/http/request_reader.h"

namespace baton {

class IoThread;

// One connection: reads requests, hands them out one at a time and writes their answers. All of it
// runs in its I/O thread; only what ExchangeState passes on comes from elsewhere. It always waits
// for something to read, so that it notices when the client goes, unless the client sends more
// requests than a header may have bytes while it is answered: then each sweep looks for its end.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(IoThread* thread, boost::asio::ip::tcp::socket socket,
             std::unique_ptr<ByteStream> stream);

  // With `refuse` it is told that there is no room, and closed; not with TLS.
  void Start(bool refuse);
  bool IsDue(base::Instant now) const { return now >= deadline_ || read_paused_; }
  // Ends it if its time is over, or its client gone.
  void Sweep(base::Instant now);
  void Close();
  // Tells its client, of whose request a part is still to come, that others need its place.
  void RefuseForOthers();
  // Nobody has begun a request on it.
  bool IsIdle() const { return phase_ == Phase::kHandshake || phase_ == Phase::kIdle; }
  // Where it stands among those of its thread that give way to others, while it does.
  struct Place {
    std::list<Connection*>* line = nullptr;
    std::list<Connection*>::iterator at;
  };
  std::optional<Place> place;

 private:
  // How often it reads or writes before others of its thread do.
  static constexpr int kTurns = 4;
  enum class Phase { kHandshake, kIdle, kHeader, kBody, kAnswer, kLinger, kClosed };

  void WaitReadable();
  void WaitWritable();
  void OnReadable();
  void OnWritable();
  void Handshake();
  void Discard();
  void ReadMore();
  void BecomeIdle();

  // Goes on with what was read.
  void Consume(std::string_view bytes);
  void ConsumeView(std::string_view* view);
  void OnHeader(bool nothing_behind);
  void CountReceiving();
  void RefuseReceiving();
  // 503 with Retry-After, and the end of the connection.
  void RefuseForNow(std::string_view message);
  // Whose body it is, where clients share the room for bodies.
  std::string Client() const;
  void Dispatch();
  void EnterAnswer();
  void LeaveAnswer();

  // The server's own answer; with `close` the last on this connection.
  void Answer(HttpReply reply, bool close);
  void AnswerFailure(int status, const std::string& message);
  bool RefusesHost(const HttpRequest& request);
  bool AnswersPreflight(const HttpRequest& request);
  void WriteHead(ExchangeState::Head head);
  // Takes what the handler has ready, once what was taken before is written.
  void Pump();
  // From the end of the answer on the client has a fixed time for what is left of it.
  void BeginEnding();
  // Writes as much as the client takes.
  void Flush();
  void FinishAnswer();
  void Linger();
  void OnPeerGone();
  // Empties a buffer.
  static void LetGo(std::string* text);

  IoThread* const thread_;
  const HttpServerOptions& options_;
  boost::asio::ip::tcp::socket socket_;
  const std::unique_ptr<ByteStream> stream_;
  std::string peer_;
  Phase phase_ = Phase::kHandshake;
  base::Instant deadline_ = base::kNever;  // of the phase
  base::Instant began_;
  bool refused_ = false;  // beyond the bound, which it therefore cannot make room under
  bool waits_readable_ = false;
  bool waits_writable_ = false;
  bool read_wants_write_ = false;  // TLS
  bool read_paused_ = false;       // too much of the next requests is there

  std::string input_;  // read, and not understood yet
  std::unique_ptr<RequestReader> reader_;
  std::unique_ptr<ReceivingBody> receiving_;  // from the header on, until all of the body is there

  // Of the request that is answered.
  std::shared_ptr<ExchangeState> state_;  // null for the server's own answers
  std::string origin_;                    // that may read the answer
  bool keep_alive_ = true;
  bool is_head_ = false;
  bool http_1_0_ = false;
  bool chunked_ = false;
  bool ending_ = false;       // nothing comes behind what is in `output_` and `state_`
  bool answer_ends_ = false;  // with what is in `output_`
  std::string output_;
  size_t written_ = 0;  // of output_
  size_t discarded_ = 0;
};

}  // namespace baton
