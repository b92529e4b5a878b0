#include "tools/bench/load/load_generator.h"

#include <sys/prctl.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "tools/bench/load/request_log.h"

namespace baton::bench {
namespace {

constexpr base::Duration kProgressInterval = std::chrono::milliseconds(250);
constexpr base::Duration kStopPoll = std::chrono::milliseconds(50);
// How long streams get to end once they are cancelled. A client that keeps its contract needs far
// less.
constexpr base::Duration kCancelGrace = std::chrono::seconds(30);
// `from` + `by`, but never past the last instant that the clock can tell.
base::Instant After(base::Instant from, base::Duration by) {
  return by > base::kNever - from ? base::kNever : from + by;
}

// The thread that sends. Everything a request needs is made before its time comes.
class Pacer final {
 public:
  Pacer(const RequestPlan& plan, const LoadOptions& options, StreamClient* client,
        std::shared_ptr<LoadState> state)
      : plan_(plan), options_(options), client_(client), state_(std::move(state)) {
    logs_.reserve(plan.requests.size());
  }

  void Run() {
    // The kernel may round timers up by this much; the default is 50 us.
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    for (const PlannedRequest& request : plan_.requests) {
      auto log = std::make_shared<RequestLog>(state_, request);
      const bool sent = options_.concurrency > 0 ? SendWhenFree(request, std::move(log))
                                                 : SendAtItsTime(request, std::move(log));
      if (!sent) break;
    }
    base::MutexLock lock(&state_->mutex);
    state_->sending_over = true;
    state_->quiet.NotifyAll();
  }

  std::vector<std::shared_ptr<RequestLog>> TakeLogs() { return std::move(logs_); }

 private:
  // Both return false when nothing more is to be sent.
  bool SendAtItsTime(const PlannedRequest& request, std::shared_ptr<RequestLog> log) {
    const base::Instant due = state_->started + request.at;
    {
      base::MutexLock lock(&state_->mutex);
      while (!state_->halt && std::chrono::steady_clock::now() < due) {
        state_->place_or_halt.WaitUntil(&state_->mutex, due);
      }
      if (state_->halt) return false;
      ++state_->under_way;
    }
    const base::Instant now = std::chrono::steady_clock::now();
    log->WillBeSent(due, due, now);
    Send(request, std::move(log));
    return true;
  }

  bool SendWhenFree(const PlannedRequest& request, std::shared_ptr<RequestLog> log) {
    const base::Instant until = options_.duration > base::Duration::zero()
                                    ? After(state_->started, options_.duration)
                                    : base::kNever;
    base::Instant due = state_->started;
    {
      base::MutexLock lock(&state_->mutex);
      if (places_used_ < options_.concurrency) {
        ++places_used_;
      } else {
        while (!state_->halt && next_free_ == state_->free_places.size()) {
          if (until == base::kNever) {
            state_->place_or_halt.Wait(&state_->mutex);
          } else if (!state_->place_or_halt.WaitUntil(&state_->mutex, until)) {
            return false;
          }
        }
        if (!state_->halt) due = state_->free_places[next_free_++];
      }
      if (state_->halt) return false;
      if (std::chrono::steady_clock::now() >= until) return false;
      ++state_->under_way;
    }
    const base::Instant now = std::chrono::steady_clock::now();
    log->WillBeSent(due, now, now);
    Send(request, std::move(log));
    return true;
  }

  void Send(const PlannedRequest& request, std::shared_ptr<RequestLog> log) {
    logs_.push_back(log);
    ++state_->sent;
    client_->Start(request, std::move(log));
  }

  const RequestPlan& plan_;
  const LoadOptions& options_;
  StreamClient* const client_;
  const std::shared_ptr<LoadState> state_;
  std::vector<std::shared_ptr<RequestLog>> logs_;  // in the order of sending
  int32_t places_used_ = 0;
  size_t next_free_ = 0;  // in free_places
};

// The calling thread: shows progress and decides when the run is over.
class Supervisor final {
 public:
  Supervisor(const RequestPlan& plan, const LoadOptions& options, StreamClient* client,
             const std::atomic<bool>& stop, std::function<void(const LoadProgress&)> progress,
             LoadState* state)
      : planned_(static_cast<int64_t>(plan.requests.size())),
        options_(options),
        client_(client),
        stop_(stop),
        progress_(std::move(progress)),
        state_(state) {}

  void Watch(std::thread* pacer, LoadResult* result) {
    Halt why = WaitForSending();
    {
      base::MutexLock lock(&state_->mutex);
      state_->halt = true;
      state_->place_or_halt.NotifyAll();
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
        base::MutexLock lock(&state_->mutex);
        if (state_->sending_over) return Halt::kNone;
      }
      Tick();
    }
  }

  // Until nothing is under way. With `whatever` only the deadline ends the wait early.
  Halt WaitForStreams(base::Instant deadline, bool whatever = false) {
    while (true) {
      {
        base::MutexLock lock(&state_->mutex);
        if (state_->under_way == 0) return Halt::kNone;
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
    base::MutexLock lock(&state_->mutex);
    return state_->unavailable_in_row >= options_.give_up_after ? Halt::kGiveUp : Halt::kNone;
  }

  absl::Status GaveUp() {
    base::MutexLock lock(&state_->mutex);
    const absl::Status& last = state_->last_unavailable;
    return {last.code(),
            absl::StrCat("the run ended early: ", state_->unavailable_in_row,
                         " requests in a row failed, the last with: ", last.message())};
  }

  // Waits for a moment, or for the run to become quiet.
  void Tick() {
    const base::Instant now = std::chrono::steady_clock::now();
    if (now >= next_progress_) {
      Show();
      next_progress_ = now + kProgressInterval;
    }
    base::MutexLock lock(&state_->mutex);
    state_->quiet.WaitUntil(&state_->mutex, now + kStopPoll);
  }

  void Show() {
    if (!progress_) return;
    progress_({.elapsed_s = base::Seconds(std::chrono::steady_clock::now() - state_->started),
               .planned = planned_,
               .sent = state_->sent,
               .done = state_->done,
               .failed = state_->failed,
               .output_tokens = state_->output_tokens,
               .last_ttft_ms = state_->last_ttft_ms});
  }

  const int64_t planned_;
  const LoadOptions& options_;
  StreamClient* const client_;
  const std::atomic<bool>& stop_;
  const std::function<void(const LoadProgress&)> progress_;
  LoadState* const state_;
  base::Instant next_progress_ = std::chrono::steady_clock::now() + kProgressInterval;
};

}  // namespace

LoadResult RunLoad(const RequestPlan& plan, const LoadOptions& options, StreamClient* client,
                   const std::atomic<bool>& stop,
                   const std::function<void(const LoadProgress&)>& progress) {
  LoadResult result;
  const auto state = std::make_shared<LoadState>(options.concurrency > 0);
  Pacer pacer(plan, options, client, state);
  base::SteadyClock clock;
  result.unix_started = clock.UnixNow();
  result.started = state->started = clock.Now();
  Supervisor supervisor(plan, options, client, stop, progress, state.get());
  std::thread thread([&pacer] { pacer.Run(); });
  supervisor.Watch(&thread, &result);
  for (const std::shared_ptr<RequestLog>& log : pacer.TakeLogs()) {
    log->MoveTo(&result);
    result.duration_s = std::max(result.duration_s, result.records.back().ended);
  }
  return result;
}

}  // namespace baton::bench
