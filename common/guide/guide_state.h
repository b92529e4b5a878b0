#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/guide/guide_budget.h"
#include "common/guide/guide_vocabulary.h"
#include "common/guide/guide_watch.h"
#include "common/guide/task_pool.h"
#include "common/sched/sequence_guide.h"

namespace baton {

// One answer's state in its grammar. Going on by tokens, what has to come and the masks behind it
// are worked out on a pool, or by who waits for them if the pool has not begun. Thread-safe.
//
// The grammar goes ahead of the answer: it has taken the forced ids as soon as they are known, and
// `forced_` keeps them until the answer has them, too.
class GuideState final : public SequenceGuide, public std::enable_shared_from_this<GuideState> {
 public:
  // `pool` and `watch` outlive every call.
  GuideState(GuideKind kind, CompiledGuide::State state,
             std::shared_ptr<const GuideVocabulary> vocabulary, TaskPool* pool, GuideWatch* watch);

  // Takes the tokens of earlier attempts. INVALID_ARGUMENT when the grammar forbids one.
  absl::Status TakeAll(std::span<const TokenId> tokens);

  void Prepare() override;
  bool holds_up() const override;
  bool knows_forced() const override;
  bool took_long() const override;
  ForcedRun Forced() override;
  std::span<const uint32_t> Mask() override;
  bool only_end() const override;
  absl::Status status() const override;
  void Take(TokenId token) override;

 private:
  // What is known of what comes next, and who is at work on it.
  enum class Stage { kNothing, kWanted, kForcing, kForced, kMasking, kMasked };

  // Works out the forced ids, or the mask behind them, if that is to be done and nobody has begun.
  void WorkOutForced();
  void WorkOutMask();
  absl::Status Feed(std::span<const TokenId> tokens);
  // Has the grammar take the answer's tokens, and then those that have to come.
  absl::Status FeedAndForce(std::span<const TokenId> tokens, std::vector<TokenId>* run,
                            bool* whole);
  // Has the grammar take the ids that have to come, and adds them to `run`; `*whole` says whether
  // these were all.
  absl::Status Force(std::vector<TokenId>* run, bool* whole);
  absl::Status WriteMask(bool* only_end);
  // Books what the work took, which is its failure if it was too much.
  void Book(base::Duration took, absl::Status failure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Submit(void (GuideState::*work)());
  void Await(Stage at_work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool comes_forced() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return forced_taken_ < forced_.size();
  }

  const GuideKind kind_;
  const std::shared_ptr<const GuideVocabulary> vocabulary_;
  TaskPool* const pool_;
  GuideWatch* const watch_;
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  Stage stage_ ABSL_GUARDED_BY(mutex_) = Stage::kNothing;
  GuideBudget budget_ ABSL_GUARDED_BY(mutex_);
  std::vector<TokenId> untaken_ ABSL_GUARDED_BY(mutex_);  // by the grammar
  std::vector<TokenId> forced_ ABSL_GUARDED_BY(mutex_);
  size_t forced_taken_ ABSL_GUARDED_BY(mutex_) = 0;  // of these, by the answer
  bool forced_whole_ ABSL_GUARDED_BY(mutex_) = true;
  bool only_end_ ABSL_GUARDED_BY(mutex_) = false;
  bool took_long_ ABSL_GUARDED_BY(mutex_) = false;  // the last Forced
  absl::Status status_ ABSL_GUARDED_BY(mutex_);     // behind the forced ids; no work is done on it
  // Of who is at work, else used under the lock.
  const CompiledGuide::State state_;
  TokenId last_ = -1;  // that the grammar has taken
  std::vector<uint32_t> words_;
};

}  // namespace baton
