#include "tools/batch/batch_sender.h"

#include <curl/curl.h>

#include <array>
#include <chrono>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "tools/bench/client/open_files.h"

namespace baton::batch {
namespace {

// With logprobs of long answers; what is larger is that line's error.
constexpr size_t kMaxAnswerBytes = size_t{64} << 20;

std::string HeaderOf(CURL* easy, const char* name) {
  curl_header* header = nullptr;
  const CURLHcode code = curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &header);
  return code == CURLHE_OK ? header->value : "";
}

// Both are numbers; a date, which HTTP allows, too, counts as none, and so does 0, after which a
// service that is full would be asked without a pause.
std::optional<base::Duration> RetryAfterOf(CURL* easy) {
  double number = 0;
  const auto in = [&](double unit_s) {
    constexpr double kMostS = 300;
    return std::chrono::duration_cast<base::Duration>(
        std::chrono::duration<double>(std::clamp(number * unit_s, 0.0, kMostS)));
  };
  const auto has = [&](const char* name) {
    return absl::SimpleAtod(HeaderOf(easy, name), &number) && number > 0;
  };
  if (has("retry-after-ms")) return in(1e-3);
  if (has("retry-after")) return in(1);
  return std::nullopt;
}

}  // namespace

// One request and its answer, with a curl handle that is kept for the next ones. From Send to its
// arrival only the loop's thread touches it.
class BatchSender::Exchange final : public bench::CurlLoop::Transfer {
 public:
  Exchange(size_t slot, const bench::OpenAiTarget* target, base::BoundedQueue<Arrival>* arrivals)
      : slot_(slot), target_(target), arrivals_(arrivals), easy_(curl_easy_init()) {
    BATON_CHECK(easy_ != nullptr);
  }
  ~Exchange() override { curl_easy_cleanup(easy_); }

  void Prepare(const std::string& url, std::string body) {
    body_ = std::move(body);
    // "/v1" ends the address of the service and begins the URL of a line.
    url_ = absl::StrCat(target_->root(), url.substr(std::string_view("/v1").size()));
    answer_ = HttpAnswer();
    error_[0] = '\0';
    // So that curl may send again on a new connection when a kept one closes meanwhile.
    curl_easy_reset(easy_);
    target_->SetUp(easy_);
    curl_easy_setopt(easy_, CURLOPT_URL, url_.c_str());
    curl_easy_setopt(easy_, CURLOPT_POST, 1L);
    curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, error_.data());
    curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &Exchange::OnBytes);
    curl_easy_setopt(easy_, CURLOPT_WRITEDATA, &answer_);
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body_.size()));
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, body_.data());
  }

  CURL* handle() override { return easy_; }
  void OnAdded(base::Instant) override {}

  void OnDone(base::Instant, CURLcode code) override {
    curl_off_t sent_at_us = 0;
    curl_easy_getinfo(easy_, CURLINFO_PRETRANSFER_TIME_T, &sent_at_us);
    answer_.was_sent = sent_at_us > 0;
    answer_.aborted = code == CURLE_ABORTED_BY_CALLBACK;
    if (code == CURLE_OK) {
      curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &answer_.status);
      answer_.request_id = HeaderOf(easy_, "x-request-id");
      answer_.retry_after = RetryAfterOf(easy_);
    } else {
      answer_.timed_out = code == CURLE_OPERATION_TIMEDOUT && answer_.was_sent;
      answer_.trouble = error_[0] != '\0' ? error_.data() : curl_easy_strerror(code);
      answer_.body.clear();
    }
    body_.clear();
    body_.shrink_to_fit();
    // There is a place for each slot.
    BATON_CHECK(arrivals_->TryPush({.slot = slot_, .answer = std::move(answer_)}));
  }

 private:
  static size_t OnBytes(char* bytes, size_t size, size_t count, void* into) {
    auto* const answer = static_cast<HttpAnswer*>(into);
    if (answer->body.size() + size * count > kMaxAnswerBytes) {
      answer->too_large = true;
      return 0;
    }
    answer->body.append(bytes, size * count);
    return size * count;
  }

  const size_t slot_;
  const bench::OpenAiTarget* const target_;
  base::BoundedQueue<Arrival>* const arrivals_;
  CURL* const easy_;
  std::array<char, CURL_ERROR_SIZE> error_{};
  std::string url_;
  std::string body_;
  HttpAnswer answer_;
};

absl::StatusOr<std::unique_ptr<BatchSender>> BatchSender::Connect(
    const bench::OpenAiClientOptions& options, size_t slots) {
  BATON_RETURN_IF_ERROR(bench::AllowOpenFiles(static_cast<int64_t>(slots)));
  BATON_ASSIGN_OR_RETURN(auto loop, bench::CurlLoop::Create());
  BATON_ASSIGN_OR_RETURN(auto target, bench::OpenAiTarget::Make(options));
  BATON_RETURN_IF_ERROR(target->Probe());
  return std::unique_ptr<BatchSender>(new BatchSender(std::move(target), std::move(loop), slots));
}

BatchSender::BatchSender(std::unique_ptr<bench::OpenAiTarget> target,
                         std::unique_ptr<bench::CurlLoop> loop, size_t slots)
    : target_(std::move(target)), arrivals_(slots), exchanges_(slots), loop_(std::move(loop)) {}

// The loop ends the exchanges, so it goes first.
BatchSender::~BatchSender() { loop_.reset(); }

void BatchSender::Send(size_t slot, const std::string& url, std::string body) {
  if (exchanges_[slot] == nullptr) {
    exchanges_[slot] = std::make_unique<Exchange>(slot, target_.get(), &arrivals_);
  }
  exchanges_[slot]->Prepare(url, std::move(body));
  loop_->Add(exchanges_[slot].get());
}

}  // namespace baton::batch
