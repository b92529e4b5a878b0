#include "common/worker/survival_saver.h"

#include <chrono>
#include <utility>

#include "common/eos/predict/survival_state.h"
#include "spdlog/spdlog.h"

namespace baton {

SurvivalSaver::SurvivalSaver(const LearntSurvival* survival, std::string model_fingerprint,
                             std::string path, base::Duration interval)
    : survival_(survival),
      model_fingerprint_(std::move(model_fingerprint)),
      path_(std::move(path)),
      interval_(interval),
      thread_([this] { Run(); }) {}

SurvivalSaver::~SurvivalSaver() {
  {
    base::MutexLock lock(&mutex_);
    over_ = true;
    ending_.NotifyAll();
  }
  thread_.join();
}

void SurvivalSaver::Run() {
  for (bool over = false; !over;) {
    {
      base::MutexLock lock(&mutex_);
      const base::Instant next = std::chrono::steady_clock::now() + interval_;
      while (!over_ && std::chrono::steady_clock::now() < next) ending_.WaitUntil(&mutex_, next);
      over = over_;
    }
    Save();
  }
}

void SurvivalSaver::Save() {
  const uint64_t ends = survival_->ends();
  if (ends == saved_) return;
  const absl::Status saved = SaveSurvival(*survival_, model_fingerprint_, path_);
  if (saved.ok()) {
    saved_ = ends;
  } else if (!failed_) {
    spdlog::warn("what was learnt of lengths is not kept: {}; serving goes on",
                 std::string(saved.message()));
  }
  failed_ = !saved.ok();
}

}  // namespace baton
