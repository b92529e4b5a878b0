#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/eos/predict/learnt_survival.h"

namespace baton {

// Saves what was learnt of lengths, on a thread of its own, whenever it changed: at intervals and
// at the end. A file that cannot be written is a warning, once until it can be again; serving goes
// on.
class SurvivalSaver final {
 public:
  // `survival` outlives this.
  SurvivalSaver(const LearntSurvival* survival, std::string model_fingerprint, std::string path,
                base::Duration interval = std::chrono::minutes(1));
  // Saves for the last time.
  ~SurvivalSaver();
  SurvivalSaver(const SurvivalSaver&) = delete;
  SurvivalSaver& operator=(const SurvivalSaver&) = delete;

 private:
  void Run();
  void Save();

  const LearntSurvival* const survival_;
  const std::string model_fingerprint_;
  const std::string path_;
  const base::Duration interval_;
  // These belong to the thread.
  uint64_t saved_ = 0;
  bool failed_ = false;

  base::Mutex mutex_;
  base::CondVar ending_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace baton
