#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton {

// A further page of the admin port.
struct AdminPage {
  std::string path;
  std::string content_type;
  std::function<std::string()> body;
};

// A further port of the same host that scripts of the pages may ask.
struct AskedPort {
  std::string scheme;  // "http", "https"
  int port = 0;
};

struct AdminOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // 0 = any free one
  // The page of /metrics, in Prometheus' text exposition format.
  std::function<std::string()> metrics;
  // OK when the process takes requests; else the reason why it does not.
  std::function<absl::Status()> ready;
  // OK when the process can go on; else the reason why it must be restarted. Without it, always OK.
  std::function<absl::Status()> healthy;
  // Answered with headers that let a browser load nothing from elsewhere, and ask nobody but this
  // server and `pages_ask`.
  std::vector<AdminPage> pages = {};
  std::optional<AskedPort> pages_ask = {};
};

// The HTTP server for operators. GET /metrics answers the metrics; /healthz and /readyz answer 200,
// or 503 with the reason as text. Callbacks run in the server's own threads, several at a time:
// each connection has one, so idle ones that scrapers keep delay nobody.
class AdminServer final {
 public:
  // So many connections may be open. A further one is served once one of them ends, which an idle
  // one does after 5 s.
  static constexpr size_t kMaxConnections = 64;

  // Listens and serves. UNAVAILABLE when the port is in use.
  static absl::StatusOr<std::unique_ptr<AdminServer>> Start(AdminOptions options);
  // Stops listening and joins.
  ~AdminServer();
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

  int port() const { return port_; }
  // Where it listens, as host:port.
  std::string address() const;

 private:
  class Impl;
  explicit AdminServer(AdminOptions options);
  absl::Status Listen();

  AdminOptions options_;
  int port_ = 0;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton
