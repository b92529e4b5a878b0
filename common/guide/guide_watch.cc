#include "common/guide/guide_watch.h"

#include <pthread.h>

#include <chrono>

#include "common/base/check.h"

namespace baton {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(20);

base::Duration TimeOf(clockid_t clock) {
  timespec time{};
  BATON_CHECK(clock_gettime(clock, &time) == 0) << "no clock of a thread";
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

clockid_t ClockOfThisThread() {
  clockid_t clock{};
  BATON_CHECK(pthread_getcpuclockid(pthread_self(), &clock) == 0) << "no clock of this thread";
  return clock;
}

}  // namespace

GuideWatch::GuideWatch() : thread_([this] { Watch(); }) {}

GuideWatch::~GuideWatch() {
  {
    base::MutexLock lock(&mutex_);
    BATON_CHECK(under_way_.empty()) << under_way_.size() << " guides are at work";
    stopping_ = true;
    changed_.NotifyOne();
  }
  thread_.join();
}

base::Duration GuideWatch::Run(const BatonGuideState* state, base::Duration most,
                               absl::FunctionRef<void()> work) {
  const clockid_t clock = ClockOfThisThread();
  const base::Duration begin = TimeOf(clock);
  std::list<Work> here{{.state = state, .clock = clock, .end = begin + most}};
  const auto entry = here.begin();
  {
    base::MutexLock lock(&mutex_);
    under_way_.splice(under_way_.end(), here);
    if (sleeping_) changed_.NotifyOne();
  }
  work();
  {
    base::MutexLock lock(&mutex_);
    here.splice(here.end(), under_way_, entry);
  }
  return TimeOf(clock) - begin;
}

// It looks at what is under way from time to time, and sleeps when it has found nothing twice, so
// that short work seldom has to wake it.
void GuideWatch::Watch() {
  base::MutexLock lock(&mutex_);
  bool was_idle = false;
  while (!stopping_) {
    const bool idle = under_way_.empty();
    for (const Work& work : under_way_) {
      if (TimeOf(work.clock) >= work.end) baton_guide_cancel(work.state);
    }
    if (idle && was_idle) {
      sleeping_ = true;
      while (!stopping_ && under_way_.empty()) changed_.Wait(&mutex_);
      sleeping_ = false;
    }
    was_idle = idle;
    const auto next = std::chrono::steady_clock::now() + kPoll;
    while (!stopping_ && changed_.WaitUntil(&mutex_, next)) {
    }
  }
}

}  // namespace baton
