#include "tools/bench/client/openai_client.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "tools/bench/client/completion_chunk.h"
#include "tools/bench/client/open_files.h"
#include "tools/bench/client/sse_parser.h"

namespace baton::bench {
namespace {

constexpr long kOk = 200;
constexpr size_t kMaxBodyBytes = 64 << 10;  // of an answer that is no stream
constexpr std::string_view kDone = "[DONE]";

absl::StatusCode CodeOfHttp(long http) {
  switch (http) {
    case 400:
    case 413:
    case 422:
      return absl::StatusCode::kInvalidArgument;
    case 401:
      return absl::StatusCode::kUnauthenticated;
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
      return absl::StatusCode::kNotFound;
    case 408:
    case 504:
      return absl::StatusCode::kDeadlineExceeded;
    case 429:
      return absl::StatusCode::kResourceExhausted;
    case 501:
      return absl::StatusCode::kUnimplemented;
    case 502:
    case 503:
      return absl::StatusCode::kUnavailable;
    default:
      return http >= 500 ? absl::StatusCode::kInternal : absl::StatusCode::kUnknown;
  }
}

}  // namespace

// One request and its answer, with a curl handle that is kept for the next ones. Between Start and
// OnDone only the loop's thread touches it.
class OpenAiClient::Exchange final : public CurlLoop::Transfer {
 public:
  explicit Exchange(OpenAiClient* client)
      : client_(client),
        easy_(curl_easy_init()),
        parser_(client->target_->options().max_event_bytes,
                [this](std::string_view data) { OnData(data); }) {
    BATON_CHECK(easy_ != nullptr);
  }
  ~Exchange() override { curl_easy_cleanup(easy_); }

  void Prepare(const PlannedRequest& request, std::shared_ptr<Observer> observer) {
    observer_ = std::move(observer);
    body_ = client_->target_->BodyOf(request);
    // A server may close a kept connection just as the next request goes out on it; curl then sends
    // it again on another. It gives a handle five such turns, which only a reset renews.
    curl_easy_reset(easy_);
    client_->target_->SetUp(easy_);
    curl_easy_setopt(easy_, CURLOPT_POST, 1L);
    curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, error_.data());
    curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &Exchange::OnBytes);
    curl_easy_setopt(easy_, CURLOPT_WRITEDATA, this);
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body_.size()));
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, body_.data());
    parser_.Reset();
    record_ = RequestRecord();
    trouble_ = absl::OkStatus();
    plain_.clear();
    error_[0] = '\0';
    http_ = 0;
    tokens_ = 0;
    may_be_token_.reset();
    done_ = usage_seen_ = events_seen_ = false;
  }

  CURL* handle() override { return easy_; }

  void OnAdded(base::Instant now) override { observer_->OnSent(now); }

  void OnDone(base::Instant now, CURLcode code) override {
    record_.status = StatusOf(code);
    record_.cancelled = code == CURLE_ABORTED_BY_CALLBACK;
    if (!usage_seen_) {
      record_.output_tokens = tokens_;
      record_.counted_by_server = false;
    }
    const std::shared_ptr<Observer> observer = std::exchange(observer_, nullptr);
    RequestRecord record = std::move(record_);
    OpenAiClient* const client = client_;
    {
      base::MutexLock lock(&client->mutex_);
      client->idle_.push_back(this);  // may be in use again from here on
    }
    observer->OnEnd(now, std::move(record));
  }

 private:
  static size_t OnBytes(char* bytes, size_t size, size_t count, void* self) {
    return static_cast<Exchange*>(self)->TakeBytes({bytes, size * count}) ? size * count : 0;
  }

  // False ends the transfer.
  bool TakeBytes(std::string_view bytes) {
    if (http_ == 0) curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &http_);
    if (http_ == kOk) {
      const absl::Status fed = parser_.Feed(bytes);
      if (trouble_.ok()) trouble_ = fed;
    }
    if (!events_seen_) {
      plain_.append(bytes.substr(0, kMaxBodyBytes - std::min(kMaxBodyBytes, plain_.size())));
    }
    return trouble_.ok();
  }

  void OnData(std::string_view data) {
    events_seen_ = true;
    if (done_ || !trouble_.ok()) return;
    if (data == kDone) {
      done_ = true;
      return;
    }
    auto chunk = ParseCompletionChunk(data);
    if (!chunk.ok()) {
      trouble_ = chunk.status();
    } else if (!chunk->error.empty()) {
      trouble_ = absl::InternalError("the server ended the stream with: " + chunk->error);
    } else {
      TakeChunk(std::move(*chunk));
    }
  }

  void TakeChunk(CompletionChunk chunk) {
    const base::Instant now = std::chrono::steady_clock::now();
    if (chunk.tokens > 0) Arrive(now, chunk.tokens);
    if (chunk.may_be_token) may_be_token_ = now;
    if (record_.request_id.empty()) record_.request_id = std::move(chunk.id);
    if (!chunk.finish_reason.empty()) record_.finish_reason = std::move(chunk.finish_reason);
    if (chunk.usage) {
      usage_seen_ = true;
      record_.prompt_tokens = chunk.usage->prompt_tokens;
      record_.cached_tokens = chunk.usage->cached_tokens;
      record_.output_tokens = chunk.usage->completion_tokens;
      if (may_be_token_ && record_.output_tokens > tokens_) Arrive(*may_be_token_, 1);
      may_be_token_.reset();
    }
  }

  void Arrive(base::Instant at, int32_t tokens) {
    tokens_ += tokens;
    may_be_token_.reset();  // it has no place any more in the order of arrivals
    observer_->OnChunk(at, tokens);
  }

  absl::Status StatusOf(CURLcode code) {
    if (done_) return Answered() ? absl::OkStatus() : DoneAlone();
    if (!trouble_.ok()) return trouble_;
    if (code == CURLE_ABORTED_BY_CALLBACK) return absl::CancelledError("ended by this program");
    if (http_ == 0) curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &http_);
    if (http_ != 0 && http_ != kOk) {
      return {CodeOfHttp(http_), absl::StrCat("HTTP ", http_, ": ", ErrorMessageOf(plain_))};
    }
    if (code != CURLE_OK) return Broken(code);
    if (!record_.finish_reason.empty()) return absl::OkStatus();
    return EndedEarly();
  }

  // Servers close the stream of an answer that they gave up with [DONE], too.
  bool Answered() const { return tokens_ > 0 || usage_seen_ || !record_.finish_reason.empty(); }

  static absl::Status DoneAlone() {
    return absl::InternalError(absl::StrCat("the stream said ", std::string(kDone),
                                            " before any token, finish_reason or usage"));
  }

  absl::Status Broken(CURLcode code) {
    if (code == CURLE_OPERATION_TIMEDOUT && Connected()) {
      return absl::DeadlineExceededError(
          absl::StrCat("no end within ", base::Seconds(client_->target_->options().timeout), " s; ",
                       tokens_, " tokens had come; raise --timeout if that is too short"));
    }
    long error = 0;
    curl_easy_getinfo(easy_, CURLINFO_OS_ERRNO, &error);
    const std::string why = absl::StrCat(
        error_[0] != '\0' ? error_.data() : curl_easy_strerror(code), error != 0 ? ": " : "",
        error != 0 ? std::strerror(static_cast<int>(error)) : "");
    if (error == EMFILE || error == ENFILE) {
      return absl::ResourceExhaustedError(
          absl::StrCat(why, "; raise the limit of open files (ulimit -n) or send fewer at once"));
    }
    return absl::UnavailableError(
        Connected() ? absl::StrCat("the connection broke after ", tokens_, " tokens: ", why) : why);
  }

  bool Connected() const {
    curl_off_t sent_at_us = 0;
    curl_easy_getinfo(easy_, CURLINFO_PRETRANSFER_TIME_T, &sent_at_us);
    return sent_at_us > 0;
  }

  absl::Status EndedEarly() const {
    char* type = nullptr;
    curl_easy_getinfo(easy_, CURLINFO_CONTENT_TYPE, &type);
    if (!events_seen_) {
      return absl::InternalError(
          absl::StrCat("the server answered ", type != nullptr ? type : "nothing known",
                       " without any event; expected text/event-stream: ", ErrorMessageOf(plain_)));
    }
    return absl::InternalError(absl::StrCat(
        "the stream ended after ", tokens_, " tokens without finish_reason and without ",
        std::string(kDone), parser_.mid_event() ? ", in the middle of an event" : ""));
  }

  OpenAiClient* const client_;
  CURL* const easy_;
  std::array<char, CURL_ERROR_SIZE> error_{};
  SseParser parser_;
  std::shared_ptr<Observer> observer_;
  std::string body_;
  RequestRecord record_;
  absl::Status trouble_;  // what the stream said that it should not have
  std::string plain_;     // what came before the first event: the body of an error
  long http_ = 0;
  int32_t tokens_ = 0;
  std::optional<base::Instant> may_be_token_;  // the last chunk, if only the usage tells
  bool done_ = false;
  bool usage_seen_ = false;
  bool events_seen_ = false;
};

absl::StatusOr<std::unique_ptr<OpenAiClient>> OpenAiClient::Connect(
    const OpenAiClientOptions& options) {
  BATON_RETURN_IF_ERROR(AllowOpenFiles(options.max_streams));
  BATON_ASSIGN_OR_RETURN(auto loop, CurlLoop::Create());
  BATON_ASSIGN_OR_RETURN(auto target, OpenAiTarget::Make(options));
  BATON_RETURN_IF_ERROR(target->Probe());
  return std::unique_ptr<OpenAiClient>(new OpenAiClient(std::move(target), std::move(loop)));
}

OpenAiClient::OpenAiClient(std::unique_ptr<OpenAiTarget> target, std::unique_ptr<CurlLoop> loop)
    : target_(std::move(target)), loop_(std::move(loop)) {}

// The loop ends the exchanges, so it goes first.
OpenAiClient::~OpenAiClient() { loop_.reset(); }

void OpenAiClient::Start(const PlannedRequest& request, std::shared_ptr<Observer> observer) {
  Exchange* exchange = nullptr;
  {
    base::MutexLock lock(&mutex_);
    if (idle_.empty()) {
      exchanges_.push_back(std::make_unique<Exchange>(this));
      idle_.push_back(exchanges_.back().get());
    }
    exchange = idle_.back();
    idle_.pop_back();
  }
  exchange->Prepare(request, std::move(observer));
  loop_->Add(exchange);
}

}  // namespace baton::bench
