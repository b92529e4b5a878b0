#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/guide/guide_vocabulary.h"
#include "common/guide/task_pool.h"
#include "common/sched/sequence_guide.h"

namespace baton {

// One answer's state in its grammar, whose masks are worked out on a pool, or by who waits for them
// if the pool has not begun. Thread-safe.
class GuideState final : public SequenceGuide, public std::enable_shared_from_this<GuideState> {
 public:
  // `pool` outlives every call.
  GuideState(GuideKind kind, CompiledGuide::State state,
             std::shared_ptr<const GuideVocabulary> vocabulary, TaskPool* pool);

  // Takes the tokens of earlier attempts. INVALID_ARGUMENT when the grammar forbids one.
  absl::Status TakeAll(std::span<const TokenId> tokens);

  void Prepare() override;
  bool holds_up() const override;
  std::span<const uint32_t> Mask() override;
  bool only_end() const override;
  absl::Status status() const override;
  void Take(TokenId token) override;

 private:
  enum class MaskState { kUnknown, kWanted, kInWork, kKnown };

  // Works the mask out if it is wanted and nobody has begun.
  void Work();
  absl::Status Feed(std::span<const TokenId> tokens) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AwaitWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const GuideKind kind_;
  const std::shared_ptr<const GuideVocabulary> vocabulary_;
  TaskPool* const pool_;
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  MaskState mask_ ABSL_GUARDED_BY(mutex_) = MaskState::kUnknown;
  bool slow_ ABSL_GUARDED_BY(mutex_) = false;  // the last mask took long
  bool only_end_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  // Written by who works on the mask, else read and fed under the lock.
  const CompiledGuide::State state_;
  std::vector<uint32_t> words_;
};

}  // namespace baton
