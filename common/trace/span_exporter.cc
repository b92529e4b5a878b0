#include "common/trace/span_exporter.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

using base::Instant;
using Batch = std::vector<std::unique_ptr<const SpanTree>>;

// For a post that was broken off to come back.
constexpr base::Duration kBreaking = std::chrono::milliseconds(500);

size_t SpansOf(const Batch& batch) {
  size_t spans = 0;
  for (const auto& tree : batch) spans += tree->spans().size();
  return spans;
}

Instant Now() { return std::chrono::steady_clock::now(); }

}  // namespace

std::string_view SpanDropName(SpanDrop reason) {
  switch (reason) {
    case SpanDrop::kQueueFull:
      return "queue_full";
    case SpanDrop::kUnreachable:
      return "unreachable";
    case SpanDrop::kRejected:
      return "rejected";
    case SpanDrop::kShutdown:
      return "shutdown";
  }
  return "";
}

// The queue and the thread that empties it.
class SpanExporter::Worker final {
 public:
  Worker(OtlpTarget target, TraceResource resource, const ExportLimits& limits)
      : origin_(target.origin),
        resource_(std::move(resource)),
        limits_(limits),
        client_(std::move(target)) {}

  static void Start(const std::shared_ptr<Worker>& self) {
    base::MutexLock lock(&self->mutex_);
    self->thread_ = std::thread([self] { self->Run(); });
  }

  void Submit(std::unique_ptr<const SpanTree> tree) {
    const size_t spans = tree->spans().size();
    base::MutexLock lock(&mutex_);
    if (stopping_) return Drop(SpanDrop::kShutdown, spans);
    if (waiting_ + spans > limits_.queue_spans) return Drop(SpanDrop::kQueueFull, spans);
    if (queue_.empty()) full_by_ = Now() + limits_.linger;
    waiting_ += spans;
    const bool wake = queue_.empty() || waiting_ >= limits_.batch_spans;
    queue_.push_back(std::move(tree));
    if (wake) changed_.NotifyOne();
  }

  void Stop(base::Duration within) {
    std::thread thread;
    {
      base::MutexLock lock(&mutex_);
      if (std::exchange(stopping_, true)) return;
      stop_by_ = Now() + within;
      thread = std::move(thread_);
      changed_.NotifyAll();
    }
    if (!WaitOver(stop_by_)) {
      client_.Break();
      if (!WaitOver(Now() + kBreaking)) return LeaveBehind(std::move(thread));
    }
    thread.join();
  }

  int64_t exported() const { return exported_; }
  int64_t dropped(SpanDrop reason) const { return dropped_[static_cast<size_t>(reason)]; }

 private:
  void Run() {
    // A collector that closes its end is an error of a write, not of this process.
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    while (std::optional<Batch> batch = Take()) Deliver(*batch);
    base::MutexLock lock(&mutex_);
    over_ = true;
    changed_.NotifyAll();
  }

  // Waits until a batch is full or old enough. Empty at the end.
  std::optional<Batch> Take() {
    base::MutexLock lock(&mutex_);
    while (!stopping_ && queue_.empty()) changed_.Wait(&mutex_);
    while (!stopping_ && waiting_ < limits_.batch_spans && Now() < full_by_) {
      changed_.WaitUntil(&mutex_, full_by_);
    }
    if (queue_.empty()) return std::nullopt;
    Batch batch;
    size_t spans = 0;
    while (!queue_.empty() &&
           (batch.empty() || spans + queue_.front()->spans().size() <= limits_.batch_spans)) {
      spans += queue_.front()->spans().size();
      batch.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    waiting_ -= spans;
    full_by_ = Now() + limits_.linger;
    return batch;
  }

  void Deliver(const Batch& batch) {
    const auto spans = static_cast<int64_t>(SpansOf(batch));
    const std::string body = OtlpJson(resource_, batch);
    base::Duration backoff = limits_.first_backoff;
    SpanDrop reason = SpanDrop::kUnreachable;
    bool last = false;
    for (int attempt = 1; attempt <= limits_.attempts; ++attempt) {
      const base::Duration within = PostTime();
      if (within <= base::Duration::zero()) {
        reason = SpanDrop::kShutdown;
        break;
      }
      const OtlpReply reply = client_.Post(body, within);
      if (!left_behind()) Tell(reply);
      if (reply.kind == OtlpReply::Kind::kTaken) {
        const int64_t rejected = std::min(reply.rejected, spans);
        exported_ += spans - rejected;
        return Drop(SpanDrop::kRejected, rejected);
      }
      if (reply.kind == OtlpReply::Kind::kRefused) {
        reason = SpanDrop::kRejected;
        break;
      }
      if (last) {
        reason = SpanDrop::kShutdown;
        break;
      }
      if (attempt < limits_.attempts) last = !Pause(reply.retry_after.value_or(backoff));
      backoff = std::min(2 * backoff, limits_.last_backoff);
    }
    Drop(reason, spans);
  }

  // The process has ended without this thread, and its log perhaps too.
  bool left_behind() {
    base::MutexLock lock(&mutex_);
    return left_behind_;
  }

  // What a post may take now.
  base::Duration PostTime() {
    base::MutexLock lock(&mutex_);
    return stopping_ ? std::min(limits_.deadline, stop_by_ - Now()) : limits_.deadline;
  }

  // False when the process ends: then there is one more try, at once.
  bool Pause(base::Duration pause) {
    const Instant until = Now() + pause;
    base::MutexLock lock(&mutex_);
    while (!stopping_ && Now() < until) changed_.WaitUntil(&mutex_, until);
    return !stopping_;
  }

  void LeaveBehind(std::thread thread) {
    base::MutexLock lock(&mutex_);
    left_behind_ = true;
    thread.detach();
  }

  bool WaitOver(Instant until) {
    base::MutexLock lock(&mutex_);
    while (!over_ && Now() < until) changed_.WaitUntil(&mutex_, until);
    return over_;
  }

  // One line when it begins to fail, one when it works again.
  void Tell(const OtlpReply& reply) {
    const bool fails = reply.kind != OtlpReply::Kind::kTaken || !reply.why.empty();
    if (std::exchange(failing_, fails) == fails) return;
    if (fails) {
      spdlog::warn("traces do not reach {} (--otlp-endpoint): {}; requests are served as before",
                   origin_, reply.why);
    } else {
      spdlog::info("traces reach {} again", origin_);
    }
  }

  void Drop(SpanDrop reason, size_t spans) {
    dropped_[static_cast<size_t>(reason)] += static_cast<int64_t>(spans);
  }
  void Drop(SpanDrop reason, int64_t spans) { Drop(reason, static_cast<size_t>(spans)); }

  const std::string origin_;
  const TraceResource resource_;
  const ExportLimits limits_;
  OtlpClient client_;
  bool failing_ = false;  // of the thread
  std::atomic<int64_t> exported_{0};
  std::array<std::atomic<int64_t>, kSpanDrops> dropped_{};
  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<std::unique_ptr<const SpanTree>> queue_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // spans in the queue
  Instant full_by_ ABSL_GUARDED_BY(mutex_){};
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  bool left_behind_ ABSL_GUARDED_BY(mutex_) = false;
  Instant stop_by_ ABSL_GUARDED_BY(mutex_){};
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

SpanExporter::SpanExporter(OtlpTarget target, TraceResource resource, const ExportLimits& limits)
    : worker_(std::make_shared<Worker>(std::move(target), std::move(resource), limits)) {
  Worker::Start(worker_);
}

SpanExporter::~SpanExporter() { Stop(base::Duration::zero()); }

void SpanExporter::Submit(std::unique_ptr<const SpanTree> tree) {
  worker_->Submit(std::move(tree));
}

void SpanExporter::Stop(base::Duration within) { worker_->Stop(within); }

int64_t SpanExporter::exported() const { return worker_->exported(); }

int64_t SpanExporter::dropped(SpanDrop reason) const { return worker_->dropped(reason); }

}  // namespace baton
