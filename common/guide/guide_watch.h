#pragma once

#include <time.h>

#include <list>
#include <thread>

#include "absl/functional/function_ref.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rust/baton_guide.h"

namespace baton {

// A thread that ends the work of guides which takes too long. It measures the time of the processor
// and not that of the day, so that a busy machine ends nothing that an idle one would not.
// Thread-safe.
class GuideWatch final {
 public:
  GuideWatch();
  // No work is under way by then.
  ~GuideWatch();

  // Runs work on `state` here, and returns what it took. Once that is `most` the work is ended by
  // baton_guide_cancel; this is seen some 20 ms late.
  base::Duration Run(const BatonGuideState* state, base::Duration most,
                     absl::FunctionRef<void()> work);

 private:
  struct Work {
    const BatonGuideState* state;
    clockid_t clock;  // of the thread at work
    base::Duration end;
  };

  void Watch();

  base::Mutex mutex_;
  base::CondVar changed_;
  std::list<Work> under_way_ ABSL_GUARDED_BY(mutex_);
  bool sleeping_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace baton
