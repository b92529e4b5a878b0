#include "tests/fakes/fake_openai_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "httplib.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/eventually.h"

namespace baton::testing {
namespace {

using Json = nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

Json EventOf(const FakeOpenAiOptions& options, bool last) {
  Json choice = {{"index", 0}, {"text", last ? "" : options.text}, {"finish_reason", nullptr}};
  if (last) choice["finish_reason"] = "length";
  if (options.token_ids && !last) {
    choice["token_ids"] = std::vector<int>(static_cast<size_t>(options.tokens_per_event), 7);
  }
  return {{"id", "cmpl-1"}, {"object", "text_completion"}, {"choices", Json::array({choice})}};
}

}  // namespace

class FakeOpenAiServer::Impl final {
 public:
  explicit Impl(FakeOpenAiOptions given) : options(std::move(given)) {
    server_.new_task_queue = [this] {
      return new httplib::ThreadPool(static_cast<size_t>(options.threads));
    };
    server_.set_keep_alive_max_count(1'000'000);
    server_.set_keep_alive_timeout(5);
    server_.set_tcp_nodelay(true);
    server_.Get("/v1/models", [this](const httplib::Request& request, httplib::Response& response) {
      if (!Allowed(request, &response)) return;
      response.set_content(R"({"object":"list","data":[{"id":"fake"}]})", "application/json");
    });
    server_.Post("/v1/completions",
                 [this](const httplib::Request& request, httplib::Response& response) {
                   if (Allowed(request, &response)) Complete(request, &response);
                 });
    int socket = -1;
    server_.set_socket_options([&socket](socket_t made) { socket = made; });
    port_ = server_.bind_to_any_port("127.0.0.1");
    listen(socket, options.threads);  // the library lets five wait
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    // stop() is deaf until then.
    BATON_CHECK(Eventually([this] { return server_.is_running(); }));
  }

  ~Impl() { Kill(); }

  void Kill() {
    {
      base::MutexLock lock(&mutex);
      stop_ = true;
      changed.NotifyAll();
    }
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  int port() const { return port_; }

  const FakeOpenAiOptions options;
  base::Mutex mutex;
  base::CondVar changed;
  std::vector<std::string> bodies ABSL_GUARDED_BY(mutex);

 private:
  bool Allowed(const httplib::Request& request, httplib::Response* response) const {
    if (options.api_key.empty() ||
        request.get_header_value("Authorization") == "Bearer " + options.api_key) {
      return true;
    }
    response->status = 401;
    response->set_content(R"({"error":{"message":"bad key"}})", "application/json");
    return false;
  }

  void Complete(const httplib::Request& request, httplib::Response* response) {
    bool slow = false;
    {
      base::MutexLock lock(&mutex);
      bodies.push_back(request.body);
      slow = under_way_ >= options.slow_from;
      changed.NotifyAll();
    }
    if (options.http_status != 200 || !options.body.empty()) {
      response->status = options.http_status;
      response->set_content(options.body, "application/json");
      return;
    }
    const Json body = Json::parse(request.body);
    const int events = options.stop_after < 0
                           ? (body["max_tokens"].get<int>() + options.tokens_per_event - 1) /
                                 options.tokens_per_event
                           : options.stop_after;
    const int prompt = static_cast<int>(body["prompt"].size());
    const base::Duration ttft = slow ? options.slow_ttft : options.ttft;
    CountUnderWay(1);
    response->set_chunked_content_provider(
        "text/event-stream",
        [this, ttft, events, prompt](size_t, httplib::DataSink& sink) {
          return Stream(ttft, events, prompt, &sink);
        },
        [this](bool) { CountUnderWay(-1); });
  }

  void CountUnderWay(int change) {
    base::MutexLock lock(&mutex);
    under_way_ += change;
  }

  // False breaks the connection.
  bool Stream(base::Duration ttft, int events, int prompt, httplib::DataSink* sink) {
    auto due = SteadyClock::now() + ttft;
    for (int i = 0; i < events; ++i) {
      if (!SleepUntil(due)) return false;
      if (!Send(sink, EventOf(options, false).dump())) return false;
      due += options.gap;
    }
    switch (options.end) {
      case OpenAiEnd::kDone:
      case OpenAiEnd::kNoDone:
        if (options.token_in_last && !SleepUntil(due)) return false;
        return Finish(events * options.tokens_per_event + (options.token_in_last ? 1 : 0), prompt,
                      sink);
      case OpenAiEnd::kCut:
        Write(sink, "data: {\"id\":");
        return false;
      case OpenAiEnd::kNothing:
        break;
      case OpenAiEnd::kDoneAlone:
        Send(sink, "[DONE]");
        break;
      case OpenAiEnd::kMalformed:
        Send(sink, "{\"id\": oops}");
        break;
      case OpenAiEnd::kErrorEvent:
        Send(sink, R"({"error":{"message":"out of blocks","code":500}})");
        break;
      case OpenAiEnd::kHang:
        return SleepUntil(base::kNever);
    }
    sink->done();
    return true;
  }

  bool Finish(int tokens, int prompt, httplib::DataSink* sink) {
    Send(sink, EventOf(options, true).dump());
    if (options.usage) {
      const Json usage = {{"prompt_tokens", prompt},
                          {"completion_tokens", tokens},
                          {"total_tokens", prompt + tokens},
                          {"prompt_tokens_details", {{"cached_tokens", 3}}}};
      const Json event = {{"id", "cmpl-1"}, {"choices", Json::array()}, {"usage", usage}};
      Send(sink, event.dump());
    }
    if (options.end == OpenAiEnd::kDone) Send(sink, "[DONE]");
    sink->done();
    return true;
  }

  bool Send(httplib::DataSink* sink, const std::string& data) {
    return Write(sink, "data: " + data + options.line_end + options.line_end);
  }
  static bool Write(httplib::DataSink* sink, const std::string& bytes) {
    return sink->write(bytes.data(), bytes.size());
  }

  // False when the server stops.
  bool SleepUntil(base::Instant when) {
    base::MutexLock lock(&mutex);
    while (!stop_ && SteadyClock::now() < when) changed.WaitUntil(&mutex, when);
    return !stop_;
  }

  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
  bool stop_ ABSL_GUARDED_BY(mutex) = false;
  int under_way_ ABSL_GUARDED_BY(mutex) = 0;  // streams
};

FakeOpenAiServer::FakeOpenAiServer(FakeOpenAiOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
FakeOpenAiServer::~FakeOpenAiServer() = default;

std::string FakeOpenAiServer::url() const {
  return absl::StrCat("http://127.0.0.1:", impl_->port());
}

void FakeOpenAiServer::Kill() { impl_->Kill(); }

std::vector<std::string> FakeOpenAiServer::bodies() const {
  base::MutexLock lock(&impl_->mutex);
  return impl_->bodies;
}

bool FakeOpenAiServer::WaitForRequests(size_t count) const {
  const base::Instant until = SteadyClock::now() + std::chrono::minutes(1);
  base::MutexLock lock(&impl_->mutex);
  while (impl_->bodies.size() < count) {
    if (!impl_->changed.WaitUntil(&impl_->mutex, until)) return false;
  }
  return true;
}

}  // namespace baton::testing
