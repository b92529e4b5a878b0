#include "tools/serve/log_output.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "common/base/mutex.h"
#include "spdlog/sinks/base_sink.h"

namespace baton {
namespace {

constexpr size_t kWrittenAtOnce = size_t{16} << 10;
constexpr base::Duration kLastLines = std::chrono::seconds(1);

// Blocks until all is written, or the descriptor takes nothing any more: then it is lost, as
// whoever read there has left.
void WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (written < 0 && errno == EAGAIN) {
      // Whoever shares the descriptor may have made it one that does not block.
      pollfd room = {.fd = fd, .events = POLLOUT, .revents = 0};
      poll(&room, 1, -1);
    } else if (written == 0 || errno != EINTR) {
      return;
    }
  }
}

}  // namespace

struct LogOutput::Shared {
  Shared(int out, size_t most) : fd(out), most_kept(most) {}

  void Add(std::string_view lines);
  void Run();
  size_t kept() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return pending.size() + writing; }

  const int fd;
  const size_t most_kept;
  base::Mutex mutex;
  base::CondVar changed;
  std::string pending ABSL_GUARDED_BY(mutex);
  size_t writing ABSL_GUARDED_BY(mutex) = 0;  // bytes that the thread has taken from `pending`
  size_t dropped ABSL_GUARDED_BY(mutex) = 0;  // lines
  bool ending ABSL_GUARDED_BY(mutex) = false;
};

void LogOutput::Shared::Add(std::string_view lines) {
  {
    base::MutexLock lock(&mutex);
    if (dropped > 0 || kept() + lines.size() > most_kept) {
      dropped += static_cast<size_t>(std::ranges::count(lines, '\n'));
      return;
    }
    pending += lines;
  }
  changed.NotifyAll();
}

void LogOutput::Shared::Run() {
  mutex.Lock();
  while (true) {
    while (pending.empty() && !ending) changed.Wait(&mutex);
    if (ending) break;
    const std::string text = pending.substr(0, kWrittenAtOnce);
    pending.erase(0, text.size());
    writing = text.size();
    mutex.Unlock();
    WriteAll(fd, text);
    mutex.Lock();
    writing = 0;
    changed.NotifyAll();
  }
  mutex.Unlock();
}

LogOutput::LogOutput(int fd, size_t most_kept) : shared_(std::make_shared<Shared>(fd, most_kept)) {
  // Signals are for the thread that makes this: the new one has all of them blocked from its start.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([shared = shared_] { shared->Run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LogOutput::~LogOutput() {
  Flush(kLastLines);
  {
    base::MutexLock lock(&shared_->mutex);
    shared_->ending = true;
  }
  shared_->changed.NotifyAll();
}

void LogOutput::Add(std::string_view lines) { shared_->Add(lines); }

size_t LogOutput::TakeDropped() {
  base::MutexLock lock(&shared_->mutex);
  return shared_->kept() <= shared_->most_kept / 2 ? std::exchange(shared_->dropped, 0) : 0;
}

bool LogOutput::Flush(base::Duration at_most) {
  const base::Instant deadline = base::SteadyClock().Now() + at_most;
  base::MutexLock lock(&shared_->mutex);
  while (shared_->kept() > 0) {
    if (!shared_->changed.WaitUntil(&shared_->mutex, deadline)) break;
  }
  return shared_->kept() == 0;
}

spdlog::sink_ptr LogOutput::Sink() const {
  class Lines final : public spdlog::sinks::base_sink<std::mutex> {
   public:
    explicit Lines(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

   private:
    void sink_it_(const spdlog::details::log_msg& message) override {
      spdlog::memory_buf_t line;
      formatter_->format(message, line);
      shared_->Add({line.data(), line.size()});
    }
    void flush_() override {}

    const std::shared_ptr<Shared> shared_;
  };
  return std::make_shared<Lines>(shared_);
}

}  // namespace baton
