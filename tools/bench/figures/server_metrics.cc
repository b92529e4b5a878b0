#include "tools/bench/figures/server_metrics.h"

#include <algorithm>
#include <string_view>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/config/flag_set.h"
#include "common/config/numbers.h"
#include "httplib.h"
#include "tools/bench/figures/metrics_reading.h"

namespace baton::bench {
namespace {

constexpr size_t kMaxPageBytes = 16 << 20;

struct Address {
  std::string host;
  int port = 0;
};

absl::StatusOr<Address> ParseTarget(const std::string& text) {
  std::string_view rest = text;
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  if (rest.ends_with("/metrics")) rest.remove_suffix(8);
  const size_t colon = rest.rfind(':');
  const int port = colon == rest.npos ? 0 : ParseNumber<int>(rest.substr(colon + 1)).value_or(0);
  std::string_view host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (port < 1 || port > 65535 || host.empty() || host.find('/') != host.npos) {
    return UsageError(absl::StrCat("metrics address '", text, "'"), "expected HOST:PORT",
                      "the admin port that a server prints when it is ready");
  }
  return Address{std::string(host), port};
}

// One page, within `timeout` from connecting to the last byte.
absl::StatusOr<std::string> ReadPage(const Address& address, base::Duration timeout) {
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(timeout);
  httplib::Client client(address.host, address.port);
  client.set_connection_timeout(micros);
  client.set_read_timeout(micros);
  client.set_write_timeout(micros);
  const base::Instant deadline = std::chrono::steady_clock::now() + timeout;
  std::string page;
  const auto receive = [&](const char* data, size_t size) {
    page.append(data, size);
    return page.size() <= kMaxPageBytes && std::chrono::steady_clock::now() < deadline;
  };
  const auto response = client.Get("/metrics", receive);
  if (!response) {
    if (page.size() > kMaxPageBytes) return absl::ResourceExhaustedError("a page over 16 MiB");
    const bool refused = response.error() == httplib::Error::Connection;
    const std::string why = refused ? "nobody listens there" : "it did not answer in time";
    return absl::UnavailableError(
        absl::StrCat(why, " (", httplib::to_string(response.error()), ")"));
  }
  if (response->status != 200) {
    return absl::UnavailableError(absl::StrCat("HTTP status ", response->status));
  }
  return page;
}

}  // namespace

// One address and the thread that reads it.
class MetricsScraper::Target {
 public:
  Target(std::string name, Address address, const ScraperOptions& options)
      : address_(std::move(address)), interval_(options.interval), timeout_(options.timeout) {
    metrics_.address = std::move(name);
    thread_ = std::thread([this] { Run(); });
  }
  ~Target() {
    if (thread_.joinable()) Finish();
  }

  // Returns when the first reading was taken, or failed.
  void AwaitFirst() {
    base::MutexLock lock(&mutex_);
    while (!begun_) changed_.Wait(&mutex_);
  }

  void RequestStop() {
    base::MutexLock lock(&mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }

  TargetMetrics Finish() {
    RequestStop();
    thread_.join();
    return std::move(metrics_);
  }

 private:
  void Run() {
    base::Instant next = std::chrono::steady_clock::now();
    while (true) {
      Scrape();
      base::MutexLock lock(&mutex_);
      if (last_) return;
      begun_ = true;
      changed_.NotifyAll();
      next = std::max(next + interval_, std::chrono::steady_clock::now());
      while (!stop_) {
        if (!changed_.WaitUntil(&mutex_, next)) break;
      }
      last_ = stop_;
    }
  }

  void Scrape() {
    const auto page = ReadPage(address_, timeout_);
    const base::Instant now = std::chrono::steady_clock::now();
    if (!page.ok()) return Fail(page.status());
    const auto samples = ParsePrometheusText(*page);
    if (!samples.ok()) return Fail(samples.status());
    EnterPage(*samples, now, &metrics_);
  }

  void Fail(const absl::Status& status) {
    ++metrics_.scrapes;
    ++metrics_.failed_scrapes;
    metrics_.answering = false;
    metrics_.last_error = std::string(status.message());
  }

  const Address address_;
  const base::Duration interval_;
  const base::Duration timeout_;
  TargetMetrics metrics_;  // the thread's until it is joined
  base::Mutex mutex_;
  base::CondVar changed_;
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool last_ ABSL_GUARDED_BY(mutex_) = false;  // the next reading is the last
  std::thread thread_;
};

MetricsScraper::MetricsScraper() = default;
MetricsScraper::~MetricsScraper() {
  for (const auto& target : targets_) target->RequestStop();
}

absl::StatusOr<std::unique_ptr<MetricsScraper>> MetricsScraper::Start(ScraperOptions options) {
  std::vector<Address> addresses;
  for (const std::string& target : options.targets) {
    BATON_ASSIGN_OR_RETURN(Address address, ParseTarget(target));
    addresses.push_back(std::move(address));
  }
  std::unique_ptr<MetricsScraper> scraper(new MetricsScraper());
  for (size_t i = 0; i < addresses.size(); ++i) {
    scraper->targets_.push_back(
        std::make_unique<Target>(options.targets[i], std::move(addresses[i]), options));
  }
  for (const auto& target : scraper->targets_) target->AwaitFirst();
  scraper->interval_s_ = base::Seconds(options.interval);
  return scraper;
}

ServerMetrics MetricsScraper::Stop() {
  ServerMetrics metrics;
  metrics.interval_s = interval_s_;
  for (const auto& target : targets_) target->RequestStop();
  for (const auto& target : targets_) metrics.targets.push_back(target->Finish());
  targets_.clear();
  return metrics;
}

}  // namespace baton::bench
