#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/http/http_exchange.h"
#include "common/http/http_message.h"
#include "common/rpc/tls.h"

namespace baton {

// What one client may cost. Each has a defined answer, told behind it.
struct HttpLimits {
  size_t header_bytes = size_t{32} << 10;  // 431, as for more than 128 fields
  size_t body_bytes = size_t{16} << 20;    // 413
  // Of all bodies that are being received: 503 with Retry-After, to the client that has most.
  size_t receiving_bytes = size_t{1} << 30;
  // At the bound the one that has been spare longest is closed for the next one: it is idle, has
  // not shaken hands or sent a whole header yet, or has had its last answer. Where none is spare,
  // the one that has sent its body longest gets 503 in its place; and where none sends one, the
  // next one does (with TLS: is closed).
  size_t connections = 16'384;
  // From a request's first byte to the end of its header, and from there to that of its body: 408.
  base::Duration header_time = std::chrono::seconds(10);
  base::Duration body_time = std::chrono::seconds(60);
  // Without a request; the connection is closed.
  base::Duration idle_time = std::chrono::seconds(75);
  // An older connection ends with its next answer; 0: none does.
  base::Duration connection_age{};
  // A client that takes nothing for so long of what is ready for it, or not all within that time
  // after the end of its answer, is cut off.
  base::Duration slow_client = std::chrono::seconds(30);
  // Of an answer that the client has not taken; Write is false beyond it.
  size_t write_buffer_bytes = size_t{4} << 20;
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;                           // 0 takes any free one
  std::string port_flag = "--http-port";  // that messages name the port by
  TlsOptions tls;                         // as of the gRPC ports: read again when the files change
  // With TLS: whoever connects must show one of the authority's certificates. Else who shows none
  // may connect, too, and one of another authority is still refused.
  bool client_certificates = true;
  // Allows plain text on another interface than loopback.
  bool insecure = false;
  int threads = 2;  // that do all reading and writing
  HttpLimits limits;
  const base::Clock* clock = nullptr;  // outlives the server
  // Called when the header is there and before the body is read; an answer refuses the request.
  // `body_bytes` is what the client announced, empty of a chunked body. May be null.
  std::function<std::optional<HttpReply>(const HttpRequest& head, std::optional<size_t> body_bytes)>
      admit;
  // Whose request it is, where clients share the room for bodies. Null: that of its address.
  std::function<std::string(const HttpRequest& head)> client_of;
  // Why a request is refused (403) that asks for `host` (the header); nothing: it is not. Null:
  // none is.
  std::function<std::optional<std::string>(const std::string& host)> refuse_host;
  // Whether pages of `origin` may read answers, from which `host` (the header) was asked. Null:
  // none may. Preflights are answered by the server.
  std::function<bool(const std::string& origin, const std::string& host)> allow_origin;
  // The answer to a request that the server itself refuses, with a sentence for people. Null: that
  // sentence as plain text.
  std::function<HttpReply(int status, std::string_view message)> error_reply;
};

// What the server has seen since its start.
struct HttpServerCounts {
  int64_t connections_open = 0;
  int64_t connections_refused = 0;   // at the bound
  int64_t answers_by_class[6] = {};  // [status / 100]; those of the server itself, too
  // Of requests that no handler saw, for their header or the way their body came: by status.
  std::map<int, int64_t> refusals_by_status;
};

// An HTTP/1.1 server, with TLS or without. A few threads serve all connections; a stream that waits
// costs its buffers only. Knows nothing of what it serves.
class HttpServer final {
 public:
  // Called with each request in an I/O thread; must not block.
  using Handler = std::function<void(std::shared_ptr<HttpExchange>)>;

  // Listens and serves. ALREADY_EXISTS when the port is in use; INVALID_ARGUMENT for a host or TLS
  // setting that cannot serve.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(HttpServerOptions options,
                                                           Handler handler);
  // Closes all connections; exchanges that are not complete hear that their client is gone. No
  // handler runs after it.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  // "host:port" as clients dial it.
  std::string address() const;
  HttpServerCounts counts() const;

  // Closes the port and the idle connections, and tells the others to go with their next answer.
  // Exchanges that are under way go on. Does not wait.
  void BeginShutdown();
  // BeginShutdown, and waits at most `grace` for answers that clients have not taken yet.
  void Shutdown(base::Duration grace);

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace baton
