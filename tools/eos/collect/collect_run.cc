#include "tools/eos/collect/collect_run.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/rpc/finish_text.h"
#include "tools/generate/summary.h"

namespace baton {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kTellEvery = std::chrono::seconds(10);

// What the threads of a run share.
class Collector final {
 public:
  Collector(const CollectRun& run, const std::vector<CollectRequest>& requests,
            GenerateClient* client, CollectStore* store)
      : run_(run), requests_(requests), client_(client), store_(store) {}

  // One thread's work: the next request, until there is none or the run is over.
  void Work() {
    for (size_t index = next_++; index < requests_.size(); index = next_++) {
      if (over_ || run_.stop->load()) return;
      const CollectRequest& request = requests_[index];
      const CollectPrompt& prompt = run_.prompts->prompts[request.prompt];
      Take(prompt, request, client_->Run(ToSend(prompt, request, run_.grid), {}));
    }
  }

  CollectResult Result() {
    base::MutexLock lock(&mutex_);
    return result_;
  }

 private:
  void Take(const CollectPrompt& prompt, const CollectRequest& request, const Outcome& outcome) {
    if (!outcome.status.ok()) {
      Fail(request, outcome.status);
      return;
    }
    const auto answer = AnswerOf(prompt, request, run_.grid, outcome, run_.eos_token_id);
    const std::string reason(FinishReasonText(outcome.final.finish_reason()));
    base::MutexLock lock(&mutex_);
    if (!result_.gave_up.ok()) return;
    failed_in_a_row_ = 0;
    ++result_.asked;
    absl::Status added = answer.status();
    if (added.ok()) added = store_->Add(prompt.family, request.id, reason, *answer);
    if (!added.ok()) GiveUp(std::move(added));
    TellProgress();
  }

  void Fail(const CollectRequest& request, const absl::Status& why) {
    base::MutexLock lock(&mutex_);
    ++result_.asked;
    ++result_.failed;
    run_.tell(absl::StrCat("request ", request.id, " failed: ", ErrorText(why)));
    // What is wrong with this request says nothing of the server.
    if (absl::IsInvalidArgument(why)) return;
    if (++failed_in_a_row_ < kMostFailuresInARow || !result_.gave_up.ok()) return;
    GiveUp(absl::UnavailableError(
        absl::StrCat(failed_in_a_row_, " requests in a row failed, found at last: ", ErrorText(why),
                     "; the rest was not asked; see to the server and run again")));
  }

  void GiveUp(absl::Status why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    result_.gave_up = std::move(why);
    over_ = true;
  }

  void TellProgress() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Clock::time_point now = Clock::now();
    if (now - told_ < kTellEvery) return;
    told_ = now;
    run_.tell(absl::StrCat(result_.asked, " of ", requests_.size(), " requests, ", result_.failed,
                           " failed, ", store_->counts().rows, " rows"));
  }

  const CollectRun& run_;
  const std::vector<CollectRequest>& requests_;
  GenerateClient* const client_;
  CollectStore* const store_;  // used under the lock
  std::atomic<size_t> next_{0};
  std::atomic<bool> over_{false};
  base::Mutex mutex_;
  CollectResult result_ ABSL_GUARDED_BY(mutex_);
  int32_t failed_in_a_row_ ABSL_GUARDED_BY(mutex_) = 0;
  Clock::time_point told_ ABSL_GUARDED_BY(mutex_) = Clock::now();
};

}  // namespace

CollectResult RunCollect(const CollectRun& run, const std::vector<CollectRequest>& requests,
                         GenerateClient* client, CollectStore* store) {
  Collector collector(run, requests, client, store);
  std::vector<std::thread> threads;
  const size_t count = std::min(static_cast<size_t>(run.concurrency), requests.size());
  threads.reserve(count);
  for (size_t i = 0; i < count; ++i) threads.emplace_back([&] { collector.Work(); });
  for (std::thread& thread : threads) thread.join();
  return collector.Result();
}

}  // namespace baton
