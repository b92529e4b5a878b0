#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "common/sched/scheduler.h"
#include "tests/fakes/fake_runner.h"

namespace baton {

// A scheduler stepped by hand over the fake model. Time moves only when told to.
class SchedulerTest : public testing::Test {
 protected:
  static constexpr int32_t kBlockSize = 4;
  static constexpr SequenceKind kLocal = SequenceKind::kLocal;
  static constexpr SequenceKind kPrefill = SequenceKind::kPrefill;
  static constexpr SequenceKind kReserved = SequenceKind::kReserved;

  SchedulerTest() {
    options_.block_size = kBlockSize;
    options_.max_num_seqs = 8;
    options_.max_prefill_tokens = 100;
    options_.max_num_batched_tokens = 100;
    options_.eos_ids = {2};
    options_.limits = {.max_model_len = 1000, .pool_tokens = 0, .vocab_size = 1000};
  }
  ~SchedulerTest() override {
    if (scheduler_ == nullptr) return;
    for (const SequenceId id : scheduler_->LiveIds()) {
      scheduler_->Cancel(id, now_);
      scheduler_->ReturnLease(id);
    }
  }

  // Call once, after the options are set. `host_blocks` are those of a second arena.
  void Start(int32_t num_blocks, bool caching = false, int32_t host_blocks = 0) {
    options_.limits.pool_tokens = num_blocks * kBlockSize;
    arena_ = std::make_unique<FakeArena>(num_blocks, kBlockSize);
    pool_ = std::make_unique<BlockPool>(num_blocks);
    if (caching) cache_ = std::make_unique<PrefixCache>(pool_.get(), kBlockSize);
    if (host_blocks > 0) {
      host_arena_ = std::make_unique<FakeArena>(host_blocks, kBlockSize);
      host_pool_ = std::make_unique<BlockPool>(host_blocks);
    }
    scheduler_ = std::make_unique<Scheduler>(options_, pool_.get(), cache_.get(), host_pool_.get());
    runner_ = std::make_unique<FakeRunner>(arena_->kv(), model_, nullptr,
                                           host_arena_ ? host_arena_->kv() : kernels::PagedKv());
  }

  static SequenceSpec Spec(SequenceKind kind, int32_t prompt, int32_t max_tokens) {
    SequenceSpec spec;
    spec.kind = kind;
    for (int32_t i = 0; i < prompt; ++i) spec.prompt.push_back(10 + i);
    spec.stop.max_tokens = max_tokens;
    return spec;
  }
  SequenceId Add(SequenceSpec spec) {
    EXPECT_TRUE(CheckSpec(spec, options_.limits).ok());
    const SequenceId id(++last_id_);
    scheduler_->Add(id, std::move(spec), now_);
    return id;
  }
  SequenceId Add(SequenceKind kind, int32_t prompt, int32_t max_tokens) {
    SequenceSpec spec = Spec(kind, prompt, max_tokens);
    spec.prompt[0] = 100 + static_cast<int32_t>(last_id_);  // no shared prefixes by accident
    return Add(std::move(spec));
  }

  StepPlan Plan() {
    StepPlan plan = scheduler_->Plan(now_);
    Collect();
    return plan;
  }
  void Commit(const StepPlan& plan) {
    ASSERT_TRUE(runner_->Submit(plan).ok());
    auto output = runner_->Wait();
    ASSERT_TRUE(output.ok());
    scheduler_->Commit(plan, *output, now_);
    Collect();
  }
  // False when nothing could run.
  bool Step() {
    scheduler_->ExpireAt(now_);
    const StepPlan plan = Plan();
    if (plan.empty()) return false;
    Commit(plan);
    return true;
  }
  void StepAll() {
    for (int i = 0; i < 10000 && Step(); ++i) {
    }
  }
  void Cancel(SequenceId id) {
    scheduler_->Cancel(id, now_);
    Collect();
  }
  void ReturnLease(SequenceId id) {
    scheduler_->ReturnLease(id);
    Collect();
  }
  void CommitImport(SequenceId id, TokenId first = 500) {
    scheduler_->CommitImport(id, {.token = first}, now_);
    Collect();
  }
  void Expire() {
    scheduler_->ExpireAt(now_);
    Collect();
  }

  SequenceState StateOf(SequenceId id) const { return state_.at(id); }
  // The last event of type E for `id`, or null.
  template <typename E>
  const E* Last(SequenceId id) const {
    const E* last = nullptr;
    for (const SchedEvent& event : events_) {
      if (event.sequence == id && std::holds_alternative<E>(event.what)) {
        last = &std::get<E>(event.what);
      }
    }
    return last;
  }
  template <typename E>
  int Count(SequenceId id) const {
    int count = 0;
    for (const SchedEvent& event : events_) {
      count += event.sequence == id && std::holds_alternative<E>(event.what) ? 1 : 0;
    }
    return count;
  }
  void ExpectAllBlocksBack() const {
    EXPECT_EQ(pool_->num_free() + pool_->num_cached(), pool_->total());
    EXPECT_TRUE(pool_->IsConsistent());
    if (host_pool_ != nullptr) {
      EXPECT_EQ(host_pool_->num_free(), host_pool_->total());
    }
    EXPECT_EQ(scheduler_->live(), 0);
  }

  SchedulerOptions options_;
  FakeModelOptions model_;
  base::Instant now_{std::chrono::hours(1)};
  std::unique_ptr<FakeArena> arena_;
  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<FakeArena> host_arena_;  // null without a second arena
  std::unique_ptr<BlockPool> host_pool_;
  std::unique_ptr<PrefixCache> cache_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<FakeRunner> runner_;
  std::vector<SchedEvent> events_;
  std::map<SequenceId, SequenceState> state_;
  uint64_t last_id_ = 0;

 private:
  void Collect() {
    for (SchedEvent& event : scheduler_->TakeEvents()) {
      if (const auto* state = std::get_if<StateEvent>(&event.what)) {
        state_[event.sequence] = state->to;
      }
      events_.push_back(std::move(event));
    }
  }
};

}  // namespace baton
