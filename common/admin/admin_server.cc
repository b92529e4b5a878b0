#include "common/admin/admin_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/admin/connection_threads.h"
#include "common/base/status.h"
#include "httplib.h"

namespace baton {
namespace {

constexpr time_t kIoTimeoutSeconds = 5;
constexpr size_t kMaxRequestBytes = 64 << 10;

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

void Answer(const absl::Status& status, httplib::Response* response) {
  response->status = status.ok() ? 200 : 503;
  response->set_content(status.ok() ? "ok\n" : MessageOf(status) + "\n", "text/plain");
}

// The host of a Host header as a policy names it. Policies have no form for IPv6, so there it is
// any host. Empty for what is no host: it must not become a part of the policy.
std::string PolicyHost(std::string_view header) {
  const bool ipv6 = header.starts_with("[");
  if (ipv6) header.remove_prefix(1);
  const std::string_view name = header.substr(0, header.find(ipv6 ? ']' : ':'));
  const bool plain = std::ranges::all_of(name, [ipv6](char c) {
    return absl::ascii_isalnum(c) || c == '.' || (ipv6 ? c == ':' : c == '-' || c == '_');
  });
  if (!plain || name.empty()) return "";
  return ipv6 ? "*" : std::string(name);
}

std::string PagePolicy(const std::optional<AskedPort>& asked, std::string_view host_header) {
  const std::string host = asked ? PolicyHost(host_header) : "";
  const std::string other =
      host.empty() ? "" : absl::StrCat(" ", asked->scheme, "://", host, ":", asked->port);
  return absl::StrCat("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'",
                      other,
                      "; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
                      "frame-ancestors 'none'");
}

void AnswerPage(const AdminPage& page, const std::string& policy, httplib::Response* response) {
  response->set_header("Content-Security-Policy", policy);
  response->set_header("X-Content-Type-Options", "nosniff");
  response->set_header("Referrer-Policy", "no-referrer");
  response->set_header("Cross-Origin-Resource-Policy", "same-origin");
  response->set_header("Cache-Control", "no-store");
  response->set_content(page.body(), page.content_type);
}

}  // namespace

class AdminServer::Impl {
 public:
  httplib::Server server;
  std::thread thread;
};

AdminServer::AdminServer(AdminOptions options)
    : options_(std::move(options)), impl_(std::make_unique<Impl>()) {}

absl::StatusOr<std::unique_ptr<AdminServer>> AdminServer::Start(AdminOptions options) {
  std::unique_ptr<AdminServer> server(new AdminServer(std::move(options)));
  BATON_RETURN_IF_ERROR(server->Listen());
  return server;
}

absl::Status AdminServer::Listen() {
  httplib::Server& http = impl_->server;
  http.new_task_queue = [] { return new ConnectionThreads(kMaxConnections); };
  http.set_read_timeout(kIoTimeoutSeconds);
  http.set_write_timeout(kIoTimeoutSeconds);
  http.set_keep_alive_timeout(kIoTimeoutSeconds);
  http.set_payload_max_length(kMaxRequestBytes);
  // The library's default shares the port with whoever else asks for it.
  http.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  http.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
    response.set_content(options_.metrics(), "text/plain; version=0.0.4; charset=utf-8");
  });
  http.Get("/healthz", [this](const httplib::Request&, httplib::Response& response) {
    Answer(options_.healthy ? options_.healthy() : absl::OkStatus(), &response);
  });
  http.Get("/readyz", [this](const httplib::Request&, httplib::Response& response) {
    Answer(options_.ready(), &response);
  });
  for (const AdminPage& page : options_.pages) {
    http.Get(page.path, [this, &page](const httplib::Request& request,
                                      httplib::Response& response) {
      AnswerPage(page, PagePolicy(options_.pages_ask, request.get_header_value("Host")), &response);
    });
  }
  errno = 0;
  if (options_.port == 0) {
    port_ = http.bind_to_any_port(options_.host);
  } else {
    port_ = http.bind_to_port(options_.host, options_.port) ? options_.port : -1;
  }
  if (port_ <= 0) {
    const int error = errno;
    return absl::UnavailableError(
        absl::StrCat("cannot listen for HTTP on ", options_.host, ":", options_.port, ": ",
                     error != 0 ? std::strerror(error) : "no such address",
                     "; give another --admin-port (0 = any free one)"));
  }
  impl_->thread = std::thread([&http] { http.listen_after_bind(); });
  // The socket accepts already; only `stop` needs the loop to run.
  while (!http.is_running()) std::this_thread::yield();
  return absl::OkStatus();
}

AdminServer::~AdminServer() {
  if (!impl_->thread.joinable()) return;
  impl_->server.stop();
  impl_->thread.join();
}

std::string AdminServer::address() const {
  const bool ipv6 = options_.host.find(':') != std::string::npos && options_.host[0] != '[';
  return ipv6 ? absl::StrCat("[", options_.host, "]:", port_)
              : absl::StrCat(options_.host, ":", port_);
}

}  // namespace baton
