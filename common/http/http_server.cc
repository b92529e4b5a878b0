#include "common/http/http_server.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "boost/asio/post.hpp"
#include "common/base/status.h"
#include "common/http/io_thread.h"
#include "common/rpc/listener.h"
#include "common/rpc/server.h"

namespace baton {
namespace {

HttpReply PlainError(int status, std::string_view message) {
  return {.status = status,
          .headers = {{"Content-Type", "text/plain; charset=utf-8"}},
          .body = std::string(message) + "\n"};
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpServerOptions options, Handler handler) {
    shared_.options = std::move(options);
    shared_.handler = std::move(handler);
    if (!shared_.options.error_reply) shared_.options.error_reply = PlainError;
  }
  ~Impl() {
    for (const auto& thread : threads_) thread->Stop();
    if (listener_ != nullptr) listener_->Close();
    listener_.reset();
  }

  absl::Status Start() {
    const HttpServerOptions& options = shared_.options;
    const size_t threads = static_cast<size_t>(std::max(options.threads, 1));
    const size_t each = std::max<size_t>(options.limits.connections / threads, 1);
    for (size_t i = 0; i < threads; ++i) {
      std::unique_ptr<TlsStreams> tls;
      if (options.tls.enabled()) {
        BATON_ASSIGN_OR_RETURN(tls, TlsStreams::Create(options.tls, options.client_certificates));
      }
      threads_.push_back(std::make_unique<IoThread>(&shared_, std::move(tls), each));
    }
    listener_ = std::make_unique<Listener>(&threads_[0]->context(),
                                           ListenerOptions{.flag = options.port_flag});
    BATON_RETURN_IF_ERROR(listener_->Listen(options.host, options.port));
    listener_->Accept([this]() -> boost::asio::io_context& { return threads_[0]->context(); },
                      [this](boost::asio::ip::tcp::socket socket) {
                        LeastLoaded().AddSocket(std::move(socket));
                      });
    for (const auto& thread : threads_) thread->Run();
    return absl::OkStatus();
  }

  void BeginShutdown() {
    shared_.going_away = true;
    boost::asio::post(threads_[0]->context(), [this] { listener_->Close(); });
    for (const auto& thread : threads_) thread->BeginShutdown();
  }
  void Shutdown(base::Duration grace) {
    BeginShutdown();
    // Of real time, as the clients take it; nobody needs to hear of it at once.
    const auto deadline = std::chrono::steady_clock::now() + grace;
    while (shared_.answering > 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  int port() const { return listener_->port(); }
  const std::string& host() const { return shared_.options.host; }
  HttpServerCounts counts() const {
    HttpServerCounts counts{.connections_open = shared_.open,
                            .connections_refused = shared_.refused};
    for (size_t i = 0; i < shared_.answers.size(); ++i) {
      counts.answers_by_class[i] = shared_.answers[i];
    }
    for (size_t i = 0; i < shared_.refusals.size(); ++i) {
      const int64_t refusals = shared_.refusals[i];
      if (refusals > 0) counts.refusals_by_status[400 + static_cast<int>(i)] = refusals;
    }
    return counts;
  }

 private:
  // Each has its part of all connections that there may be, so none may fill before the others.
  IoThread& LeastLoaded() {
    return **std::ranges::min_element(threads_, {},
                                      [](const auto& thread) { return thread->load(); });
  }

  HttpServerShared shared_;
  std::vector<std::unique_ptr<IoThread>> threads_;
  std::unique_ptr<Listener> listener_;  // in the first thread
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options,
                                                              Handler handler) {
  if (!options.tls.enabled() && !options.insecure && !IsLoopback(options.host)) {
    return absl::InvalidArgumentError(
        "--host " + options.host +
        " can be reached from other machines and there is no TLS; give --tls-cert, --tls-key and "
        "--tls-ca, or --insecure if the network is trusted");
  }
  auto impl = std::make_unique<Impl>(std::move(options), std::move(handler));
  BATON_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

int HttpServer::port() const { return impl_->port(); }

std::string HttpServer::address() const { return JoinHostPort(impl_->host(), impl_->port()); }

HttpServerCounts HttpServer::counts() const { return impl_->counts(); }

void HttpServer::BeginShutdown() { impl_->BeginShutdown(); }

void HttpServer::Shutdown(base::Duration grace) { impl_->Shutdown(grace); }

}  // namespace baton
