#include "tools/bench/load_generator.h"

#include <sys/prctl.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"

namespace baton::bench {
namespace {

constexpr base::Duration kProgressInterval = std::chrono::milliseconds(250);
constexpr base::Duration kStopPoll = std::chrono::milliseconds(50);
// For streams to end once they are cancelled. A client that keeps its contract needs far less.
constexpr base::Duration kCancelGrace = std::chrono::seconds(30);
// Chunks a record has room for before it is sent; longer answers grow by doubling.
constexpr int32_t kReservedChunks = 4096;

// `from` + `by` without passing the end of time.
base::Instant After(base::Instant from, base::Duration by) {
  return by > base::kNever - from ? base::kNever : from + by;
}

// What the threads of one run share. Observers hold it too, so that a stream that outlives its run
// still has something to report to.
struct Shared {
  explicit Shared(bool closed) : closed_loop(closed) {}

  const bool closed_loop;
  base::Instant started;

  std::atomic<int64_t> sent = 0;
  std::atomic<int64_t> done = 0;
  std::atomic<int64_t> failed = 0;
  std::atomic<int64_t> output_tokens = 0;
  std::atomic<double> last_ttft_ms = 0;

  base::Mutex mutex;
  base::CondVar place_or_halt;  // for the pacing thread
  base::CondVar quiet;          // for the supervisor: sending_over or nothing under way
  bool halt ABSL_GUARDED_BY(mutex) = false;          // send nothing more
  bool sending_over ABSL_GUARDED_BY(mutex) = false;  // the pacing thread has returned
  int64_t under_way ABSL_GUARDED_BY(mutex) = 0;
  // Closed loop: when each place became free, oldest first.
  std::vector<base::Instant> free_places ABSL_GUARDED_BY(mutex);
  int32_t unavailable_in_row ABSL_GUARDED_BY(mutex) = 0;
  absl::Status last_unavailable ABSL_GUARDED_BY(mutex);
};

// One request's record while it is written. The pacing thread fills it before Start, the client's
// callbacks (serial) after that, and the run reads it once `ended` is seen under the mutex.
class RequestLog final : public StreamClient::Observer {
 public:
  RequestLog(std::shared_ptr<Shared> shared, const PlannedRequest& request)
      : shared_(std::move(shared)),
        index_(request.index),
        prompt_tokens_(request.prompt_tokens),
        max_tokens_(request.max_tokens) {
    record_.chunks.reserve(static_cast<size_t>(std::clamp(request.max_tokens, 1, kReservedChunks)));
  }

  // `due` is when it should be sent, `scheduled` what latencies are measured from.
  void WillBeSent(base::Instant due, base::Instant scheduled, base::Instant now) {
    due_ = due;
    scheduled_ = scheduled;
    sent_ = now;
  }

  void OnSent(base::Instant now) override {
    sent_ = now;
    if (shared_->closed_loop) scheduled_ = now;
  }

  void OnChunk(base::Instant now, int32_t tokens) override {
    if (record_.chunks.empty()) {
      shared_->last_ttft_ms.store(base::Milliseconds(now - scheduled_), std::memory_order_relaxed);
    }
    record_.chunks.push_back({.at = Since(now), .tokens = tokens});
    shared_->output_tokens.fetch_add(tokens, std::memory_order_relaxed);
  }

  void OnEnd(base::Instant now, RequestRecord result) override {
    TakeResult(now, std::move(result));
    if (record_.ok()) {
      ++shared_->done;
    } else if (!record_.cancelled) {
      ++shared_->failed;
    }
    base::MutexLock lock(&shared_->mutex);
    ended_ = true;
    if (--shared_->under_way == 0) shared_->quiet.NotifyAll();
    if (shared_->closed_loop) {
      shared_->free_places.push_back(now);
      shared_->place_or_halt.NotifyAll();
    }
    if (record_.status.code() == absl::StatusCode::kUnavailable) {
      ++shared_->unavailable_in_row;
      shared_->last_unavailable = record_.status;
    } else if (!record_.cancelled) {
      shared_->unavailable_in_row = 0;
    }
  }

  // The record of a stream that has ended, or what stands for one that never will, and its lag.
  void MoveTo(LoadResult* result) {
    base::MutexLock lock(&shared_->mutex);
    if (ended_) {
      result->lag_ms.push_back(std::max(0.0, base::Milliseconds(sent_ - due_)));
      result->records.push_back(std::move(record_));
      return;
    }
    // Its callbacks may still run, so what they write is left alone.
    RequestRecord lost;
    lost.cancelled = true;
    lost.status = absl::InternalError("the stream did not end after it had been cancelled");
    Identify(due_, due_, &lost);
    lost.ended = lost.sent;
    result->lag_ms.push_back(0);
    result->records.push_back(std::move(lost));
  }

 private:
  double Since(base::Instant when) const { return base::Seconds(when - shared_->started); }

  void TakeResult(base::Instant now, RequestRecord result) {
    Identify(scheduled_, sent_, &result);
    result.ended = Since(now);
    result.chunks = std::move(record_.chunks);
    if (result.chunks.capacity() > 2 * result.chunks.size()) result.chunks.shrink_to_fit();
    record_ = std::move(result);
  }

  void Identify(base::Instant scheduled, base::Instant sent, RequestRecord* record) const {
    record->index = index_;
    record->planned_prompt_tokens = prompt_tokens_;
    record->max_tokens = max_tokens_;
    record->scheduled = Since(scheduled);
    record->sent = Since(sent);
  }

  const std::shared_ptr<Shared> shared_;
  const int64_t index_;
  const int32_t prompt_tokens_;
  const int32_t max_tokens_;
  RequestRecord record_;
  base::Instant due_, scheduled_, sent_;
  bool ended_ = false;  // guarded by shared_->mutex
};

// The thread that sends. Everything a request needs is made before its time comes.
class Pacer final {
 public:
  Pacer(const RequestPlan& plan, const LoadOptions& options, StreamClient* client,
        std::shared_ptr<Shared> shared)
      : plan_(plan), options_(options), client_(client), shared_(std::move(shared)) {
    logs_.reserve(plan.requests.size());
  }

  void Run() {
    // The kernel may round timers up by this much; the default is 50 us.
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    for (const PlannedRequest& request : plan_.requests) {
      auto log = std::make_shared<RequestLog>(shared_, request);
      const bool sent = options_.concurrency > 0 ? SendWhenFree(request, std::move(log))
                                                 : SendAtItsTime(request, std::move(log));
      if (!sent) break;
    }
    base::MutexLock lock(&shared_->mutex);
    shared_->sending_over = true;
    shared_->quiet.NotifyAll();
  }

  std::vector<std::shared_ptr<RequestLog>> TakeLogs() { return std::move(logs_); }

 private:
  // Both return false when nothing more is to be sent.
  bool SendAtItsTime(const PlannedRequest& request, std::shared_ptr<RequestLog> log) {
    const base::Instant due = shared_->started + request.at;
    {
      base::MutexLock lock(&shared_->mutex);
      while (!shared_->halt && std::chrono::steady_clock::now() < due) {
        shared_->place_or_halt.WaitUntil(&shared_->mutex, due);
      }
      if (shared_->halt) return false;
      ++shared_->under_way;
    }
    const base::Instant now = std::chrono::steady_clock::now();
    log->WillBeSent(due, due, now);
    Send(request, std::move(log));
    return true;
  }

  bool SendWhenFree(const PlannedRequest& request, std::shared_ptr<RequestLog> log) {
    const base::Instant until = options_.duration > base::Duration::zero()
                                    ? After(shared_->started, options_.duration)
                                    : base::kNever;
    base::Instant due = shared_->started;
    {
      base::MutexLock lock(&shared_->mutex);
      if (places_used_ < options_.concurrency) {
        ++places_used_;
      } else {
        while (!shared_->halt && next_free_ == shared_->free_places.size()) {
          if (until == base::kNever) {
            shared_->place_or_halt.Wait(&shared_->mutex);
          } else if (!shared_->place_or_halt.WaitUntil(&shared_->mutex, until)) {
            return false;
          }
        }
        if (!shared_->halt) due = shared_->free_places[next_free_++];
      }
      if (shared_->halt) return false;
      if (std::chrono::steady_clock::now() >= until) return false;
      ++shared_->under_way;
    }
    const base::Instant now = std::chrono::steady_clock::now();
    log->WillBeSent(due, now, now);
    Send(request, std::move(log));
    return true;
  }

  void Send(const PlannedRequest& request, std::shared_ptr<RequestLog> log) {
    logs_.push_back(log);
    ++shared_->sent;
    client_->Start(request, std::move(log));
  }

  const RequestPlan& plan_;
  const LoadOptions& options_;
  StreamClient* const client_;
  const std::shared_ptr<Shared> shared_;
  std::vector<std::shared_ptr<RequestLog>> logs_;  // in the order of sending
  int32_t places_used_ = 0;
  size_t next_free_ = 0;  // in free_places
};

// The calling thread: shows progress and decides when the run is over.
class Supervisor final {
 public:
  Supervisor(const RequestPlan& plan, const LoadOptions& options, StreamClient* client,
             const std::atomic<bool>& stop, std::function<void(const LoadProgress&)> progress,
             Shared* shared)
      : planned_(static_cast<int64_t>(plan.requests.size())),
        options_(options),
        client_(client),
        stop_(stop),
        progress_(std::move(progress)),
        shared_(shared) {}

  void Watch(std::thread* pacer, LoadResult* result) {
    Halt why = WaitForSending();
    {
      base::MutexLock lock(&shared_->mutex);
      shared_->halt = true;
      shared_->place_or_halt.NotifyAll();
    }
    pacer->join();  // it is past its last Start, or about to be
    if (why == Halt::kNone) {
      why = WaitForStreams(After(std::chrono::steady_clock::now(), options_.drain));
    }
    if (why != Halt::kNone) {
      client_->CancelAll();
      WaitForStreams(After(std::chrono::steady_clock::now(), kCancelGrace), /*whatever=*/true);
    }
    Show();
    result->interrupted = why == Halt::kStop;
    if (why == Halt::kGiveUp) result->gave_up = GaveUp();
  }

 private:
  enum class Halt { kNone, kStop, kGiveUp, kDrained };

  Halt WaitForSending() {
    while (true) {
      const Halt why = Asked();
      if (why != Halt::kNone) return why;
      {
        base::MutexLock lock(&shared_->mutex);
        if (shared_->sending_over) return Halt::kNone;
      }
      Tick();
    }
  }

  // Until nothing is under way. With `whatever` only the deadline ends the wait early.
  Halt WaitForStreams(base::Instant deadline, bool whatever = false) {
    while (true) {
      {
        base::MutexLock lock(&shared_->mutex);
        if (shared_->under_way == 0) return Halt::kNone;
      }
      const Halt why = whatever ? Halt::kNone : Asked();
      if (why != Halt::kNone) return why;
      if (std::chrono::steady_clock::now() >= deadline) return Halt::kDrained;
      Tick();
    }
  }

  Halt Asked() {
    if (stop_.load()) return Halt::kStop;
    if (options_.give_up_after <= 0) return Halt::kNone;
    base::MutexLock lock(&shared_->mutex);
    return shared_->unavailable_in_row >= options_.give_up_after ? Halt::kGiveUp : Halt::kNone;
  }

  absl::Status GaveUp() {
    base::MutexLock lock(&shared_->mutex);
    const absl::Status& last = shared_->last_unavailable;
    return {last.code(),
            absl::StrCat("the run ended early: ", shared_->unavailable_in_row,
                         " requests in a row failed, the last with: ", last.message())};
  }

  // Waits for a moment, or for the run to become quiet.
  void Tick() {
    const base::Instant now = std::chrono::steady_clock::now();
    if (now >= next_progress_) {
      Show();
      next_progress_ = now + kProgressInterval;
    }
    base::MutexLock lock(&shared_->mutex);
    shared_->quiet.WaitUntil(&shared_->mutex, now + kStopPoll);
  }

  void Show() {
    if (!progress_) return;
    progress_({.elapsed_s = base::Seconds(std::chrono::steady_clock::now() - shared_->started),
               .planned = planned_,
               .sent = shared_->sent,
               .done = shared_->done,
               .failed = shared_->failed,
               .output_tokens = shared_->output_tokens,
               .last_ttft_ms = shared_->last_ttft_ms});
  }

  const int64_t planned_;
  const LoadOptions& options_;
  StreamClient* const client_;
  const std::atomic<bool>& stop_;
  const std::function<void(const LoadProgress&)> progress_;
  Shared* const shared_;
  base::Instant next_progress_ = std::chrono::steady_clock::now() + kProgressInterval;
};

}  // namespace

LoadResult RunLoad(const RequestPlan& plan, const LoadOptions& options, StreamClient* client,
                   const std::atomic<bool>& stop,
                   const std::function<void(const LoadProgress&)>& progress) {
  LoadResult result;
  const auto shared = std::make_shared<Shared>(options.concurrency > 0);
  Pacer pacer(plan, options, client, shared);
  base::SteadyClock clock;
  result.unix_started = clock.UnixNow();
  result.started = shared->started = clock.Now();
  Supervisor supervisor(plan, options, client, stop, progress, shared.get());
  std::thread thread([&pacer] { pacer.Run(); });
  supervisor.Watch(&thread, &result);
  for (const std::shared_ptr<RequestLog>& log : pacer.TakeLogs()) {
    log->MoveTo(&result);
    result.duration_s = std::max(result.duration_s, result.records.back().ended);
  }
  return result;
}

}  // namespace baton::bench
