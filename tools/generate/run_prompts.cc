#include "tools/generate/run_prompts.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "common/base/mutex.h"

namespace baton {
namespace {

// The outcomes of all requests, by index, until they are taken in order.
class Outcomes {
 public:
  explicit Outcomes(size_t count) : outcomes_(count) {}

  void Put(size_t index, Outcome outcome) {
    {
      base::MutexLock lock(&mutex_);
      outcomes_[index] = std::move(outcome);
    }
    changed_.NotifyAll();
  }

  // Waits; every request ends at its own deadline at the latest.
  Outcome Take(size_t index) {
    base::MutexLock lock(&mutex_);
    while (!outcomes_[index]) changed_.Wait(&mutex_);
    Outcome outcome = std::move(*outcomes_[index]);
    outcomes_[index] = Outcome();
    return outcome;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<std::optional<Outcome>> outcomes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

void RunPrompts(GenerateClient* client, const std::vector<PromptRequest>& requests,
                int32_t concurrency, const std::function<bool(Outcome)>& on_outcome) {
  Outcomes outcomes(requests.size());
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  const size_t count = std::min(static_cast<size_t>(concurrency), requests.size());
  for (size_t i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      for (size_t index = next++; index < requests.size(); index = next++) {
        outcomes.Put(index, client->Run(requests[index], {}));
      }
    });
  }
  size_t taken = 0;
  while (taken < requests.size() && on_outcome(outcomes.Take(taken))) ++taken;
  next = requests.size();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace baton
