#include "common/admin/admin_server.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/admin/answer_thread.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/http/http_server.h"
#include "common/http/local_host.h"
#include "common/rpc/server.h"

namespace baton {
namespace {

// Requests are short and have no body, and who asks is near.
constexpr HttpLimits kLimits{.connections = AdminServer::kMaxConnections,
                             .header_time = std::chrono::seconds(5),
                             .slow_client = std::chrono::seconds(5)};
// A probe must find a connection whatever else waits for an answer.
static_assert(3 * (AnswerThread::kMostWaiting + 1) < AdminServer::kMaxConnections);
constexpr base::Duration kLastAnswers = std::chrono::seconds(2);

HttpReply Text(int status, const std::string& line) {
  return {.status = status, .headers = {{"Content-Type", "text/plain"}}, .body = line + "\n"};
}

HttpReply Probed(const absl::Status& status) {
  return status.ok() ? Text(200, "ok") : Text(503, std::string(status.message()));
}

std::optional<HttpReply> RefuseWhatDoesNotOnlyRead(const HttpRequest& head,
                                                   std::optional<size_t> body_bytes) {
  if (head.method != "GET" && head.method != "HEAD") {
    HttpReply reply = Text(405, "pages here are only read; expected GET or HEAD");
    reply.headers.emplace_back("Allow", "GET, HEAD");
    return reply;
  }
  if (body_bytes != 0) return Text(413, "pages here are asked for without a body; send none");
  return std::nullopt;
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

HttpReply PageReply(const AdminPage& page, const std::string& policy) {
  return {.status = 200,
          .headers = {{"Content-Security-Policy", policy},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Resource-Policy", "same-origin"},
                      {"Cache-Control", "no-store"},
                      {"Content-Type", page.content_type}},
          .body = page.body()};
}

}  // namespace

class AdminServer::Impl {
 public:
  explicit Impl(AdminOptions options) : options_(std::move(options)) {}
  ~Impl() {
    if (http_ != nullptr) http_->Shutdown(kLastAnswers);
  }

  absl::Status Listen();
  const HttpServer& http() const { return *http_; }

 private:
  // As HttpServerOptions::refuse_host.
  std::optional<std::string> RefuseHost(const std::string& host) const;
  void Route(std::shared_ptr<HttpExchange> exchange);
  HttpReply Health() const {
    return Probed(options_.healthy ? options_.healthy() : absl::OkStatus());
  }
  HttpReply Page(const HttpRequest& request) const;

  const AdminOptions options_;
  const base::SteadyClock clock_;
  AnswerThread health_{[this](const HttpRequest&) { return Health(); }};
  AnswerThread ready_{[this](const HttpRequest&) { return Probed(options_.ready()); }};
  AnswerThread pages_{[this](const HttpRequest& request) { return Page(request); }};
  std::unique_ptr<HttpServer> http_;  // the last, because it hands requests to the threads
};

absl::Status AdminServer::Impl::Listen() {
  HttpServerOptions http{.host = options_.host,
                         .port = options_.port,
                         .port_flag = "--admin-port",
                         .insecure = true,  // it shows nothing that asks for more
                         .threads = 1,
                         .limits = kLimits,
                         .clock = &clock_,
                         .admit = RefuseWhatDoesNotOnlyRead};
  // There a stranger can only be a page whose name was made to mean this machine.
  if (IsLoopback(options_.host)) {
    http.refuse_host = [this](const std::string& host) { return RefuseHost(host); };
  }
  BATON_ASSIGN_OR_RETURN(
      http_, HttpServer::Start(std::move(http), [this](std::shared_ptr<HttpExchange> exchange) {
        Route(exchange);
      }));
  return absl::OkStatus();
}

std::optional<std::string> AdminServer::Impl::RefuseHost(const std::string& host) const {
  if (IsLocalHostName(host)) return std::nullopt;
  if (!options_.serves_host) return HostRefusal(host, "");
  if (options_.serves_host(host)) return std::nullopt;
  return HostRefusal(host, ", or list http://NAME in --http-allow-origins");
}

void AdminServer::Impl::Route(std::shared_ptr<HttpExchange> exchange) {
  const std::string& path = exchange->request().path;
  AnswerThread& thread = path == "/healthz" ? health_ : path == "/readyz" ? ready_ : pages_;
  thread.Add(std::move(exchange));
}

HttpReply AdminServer::Impl::Page(const HttpRequest& request) const {
  if (request.path == "/metrics") {
    return {.status = 200,
            .headers = {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}},
            .body = options_.metrics()};
  }
  std::string known = "/metrics, /healthz, /readyz";
  for (const AdminPage& page : options_.pages) {
    if (page.path == request.path) {
      const std::string* const host = request.Find("Host");
      return PageReply(page, PagePolicy(options_.pages_ask, host != nullptr ? *host : ""));
    }
    absl::StrAppend(&known, ", ", page.path);
  }
  return Text(404, absl::StrCat("there is no such page; expected one of ", known));
}

AdminServer::AdminServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

AdminServer::~AdminServer() = default;

absl::StatusOr<std::unique_ptr<AdminServer>> AdminServer::Start(AdminOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  const absl::Status status = impl->Listen();
  if (!status.ok()) return absl::UnavailableError(status.message());
  return std::unique_ptr<AdminServer>(new AdminServer(std::move(impl)));
}

int AdminServer::port() const { return impl_->http().port(); }

std::string AdminServer::address() const { return impl_->http().address(); }

}  // namespace baton
