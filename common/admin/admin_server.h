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
  // Whether it may be asked by `host` (the header); on loopback, and beside local names. Without it
  // by none.
  std::function<bool(const std::string& host)> serves_host = {};
  // Answered with headers that let a browser load nothing from elsewhere, and ask nobody but this
  // server and `pages_ask`.
  std::vector<AdminPage> pages = {};
  std::optional<AskedPort> pages_ask = {};
};

// The HTTP server for operators. GET /metrics answers the metrics; /healthz and /readyz answer 200,
// or 503 with the reason as text. Callbacks run in three threads of the server, one for /healthz,
// one for /readyz and one for the rest, so a slow one delays its like only: a scrape no probe, and
// what makes a process not ready no word on whether it must be restarted.
class AdminServer final {
 public:
  // So many connections may be open. For a further one the longest of those that wait for no answer
  // is closed.
  static constexpr size_t kMaxConnections = 64;

  // Listens and serves. UNAVAILABLE when the port is in use.
  static absl::StatusOr<std::unique_ptr<AdminServer>> Start(AdminOptions options);
  // Stops listening. Answers that are under way have 2 s; all other connections are closed at once.
  ~AdminServer();
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

  int port() const;
  // Where it listens, as host:port.
  std::string address() const;

 private:
  class Impl;
  explicit AdminServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace baton
