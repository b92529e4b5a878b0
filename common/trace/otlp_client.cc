#include "common/trace/otlp_client.h"

#include <algorithm>
#include <functional>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/config/http_url.h"
#include "httplib.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

// Longer than that nobody waits for a collector, whatever it asks.
constexpr int kMaxRetryAfterSeconds = 300;
// What is read of an answer.
constexpr size_t kMaxAnswerBytes = size_t{64} << 10;
constexpr size_t kShownBytes = 200;
// Connecting, sending, the wait for an answer.
constexpr int kPhases = 3;

// {"partialSuccess":{"rejectedSpans":"3","errorMessage":"…"}}; the number may stand without quotes.
void ReadPartialSuccess(const std::string& body, OtlpReply* reply) {
  const auto json = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("partialSuccess")) return;
  const auto& partial = json["partialSuccess"];
  if (!partial.is_object()) return;
  if (const auto rejected = partial.find("rejectedSpans"); rejected != partial.end()) {
    int64_t count = 0;
    if (rejected->is_number_integer()) count = rejected->get<int64_t>();
    if (rejected->is_string()) (void)absl::SimpleAtoi(rejected->get<std::string>(), &count);
    reply->rejected = std::max<int64_t>(0, count);
  }
  if (reply->rejected == 0) return;
  const auto message = partial.find("errorMessage");
  const bool says = message != partial.end() && message->is_string();
  reply->why = absl::StrCat("the collector rejected ", reply->rejected, " spans",
                            says ? ": " + message->get<std::string>().substr(0, kShownBytes) : "");
}

// Calls `on_late`, again and again, while something that was to be over by `until` is not. Has a
// thread, which ends with it.
class Lateness final {
 public:
  Lateness(base::Instant until, std::function<void()> on_late)
      : thread_([this, until, late = std::move(on_late)] { Watch(until, late); }) {}
  ~Lateness() {
    {
      base::MutexLock lock(&mutex_);
      over_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }

 private:
  static constexpr base::Duration kAgain = std::chrono::milliseconds(100);

  void Watch(base::Instant until, const std::function<void()>& late) {
    base::MutexLock lock(&mutex_);
    while (true) {
      while (!over_ && std::chrono::steady_clock::now() < until) {
        changed_.WaitUntil(&mutex_, until);
      }
      if (over_) return;
      late();
      until += kAgain;
    }
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

std::unique_ptr<httplib::ClientImpl> ClientOf(const HttpAddress& address) {
  if (address.tls) return std::make_unique<httplib::SSLClient>(address.host, address.port);
  return std::make_unique<httplib::ClientImpl>(address.host, address.port);
}

}  // namespace

OtlpReply JudgeAnswer(int status, const std::string& retry_after, const std::string& body) {
  OtlpReply reply;
  if (status >= 200 && status < 300) {
    reply.kind = OtlpReply::Kind::kTaken;
    ReadPartialSuccess(body, &reply);
    return reply;
  }
  const bool busy = status == 429 || status == 502 || status == 503 || status == 504;
  reply.kind = busy ? OtlpReply::Kind::kBusy : OtlpReply::Kind::kRefused;
  reply.why = absl::StrCat("the collector answered ", status);
  // The other form, a date, is left to our own back-off.
  int seconds = 0;
  if (busy && absl::SimpleAtoi(retry_after, &seconds) && seconds >= 0) {
    reply.retry_after = std::chrono::seconds(std::min(seconds, kMaxRetryAfterSeconds));
  }
  return reply;
}

struct OtlpClient::Connection {
  explicit Connection(const std::string& origin)
      : authority(origin.substr(origin.find("://") + 3)), http(ClientOf(AddressOf(origin))) {
    http->set_keep_alive(true);
  }
  const std::string authority;  // "[fd00::2]:4318"; the library would leave out the brackets
  const std::unique_ptr<httplib::ClientImpl> http;
};

OtlpClient::OtlpClient(OtlpTarget target)
    : target_(std::move(target)), connection_(std::make_unique<Connection>(target_.origin)) {}

OtlpClient::~OtlpClient() = default;

void OtlpClient::Break() { connection_->http->stop(); }

OtlpReply OtlpClient::Post(const std::string& body, base::Duration within) {
  httplib::ClientImpl& http = *connection_->http;
  const auto limit = std::chrono::duration_cast<std::chrono::microseconds>(within);
  http.set_connection_timeout(limit);
  http.set_write_timeout(limit);
  http.set_read_timeout(limit);
  httplib::Request request;
  request.method = "POST";
  request.path = target_.path;
  request.headers = {{"Host", connection_->authority}, {"Content-Type", "application/json"}};
  request.body = body;
  std::string answer;
  request.content_receiver = [&answer, until = std::chrono::steady_clock::now() + within](
                                 const char* data, size_t size, uint64_t, uint64_t) {
    if (std::chrono::steady_clock::now() > until) return false;
    answer.append(data, std::min(size, kMaxAnswerBytes - std::min(answer.size(), kMaxAnswerBytes)));
    return true;
  };
  // The library's limits are of each read and write, and begin anew with every byte that comes.
  const Lateness lateness(std::chrono::steady_clock::now() + kPhases * within, [this] { Break(); });
  const httplib::Result result = http.send(request);
  if (result) {
    return JudgeAnswer(result->status, result->get_header_value("Retry-After"), answer);
  }
  OtlpReply reply;
  reply.why = absl::StrCat("no answer from the collector: ", httplib::to_string(result.error()));
  return reply;
}

}  // namespace baton
