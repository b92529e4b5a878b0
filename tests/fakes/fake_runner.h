#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/mutex.h"
#include "common/model/model_runner.h"
#include "kernels/paged_kv.h"

namespace baton {

// Zeroed memory for a KV pool, as a worker would have it.
class FakeArena {
 public:
  explicit FakeArena(int32_t num_blocks, int block_size = 4);
  const kernels::PagedKv& kv() const { return kv_; }

 private:
  std::vector<std::byte> memory_;
  kernels::PagedKv kv_;
};

struct FakeModelOptions {
  int32_t vocab_size = 1000;
  int32_t eos_permille = 0;   // chance that a draw is the first EOS id
  TokenId candidate_eos = 2;  // that the same chance makes a candidate of beams
  int32_t probe_dims = 0;     // products with each token
  // Overrides draws in tests that need a given token; sees prompt and output.
  std::function<std::optional<TokenId>(const kernels::SampleRow&)> force;
  // Whether the logits of a draw are no numbers; sees prompt and output.
  std::function<bool(const kernels::SampleRow&)> spoils;
  // Overrides the raw probability of EOS.
  std::function<float(const kernels::SampleRow&)> eos_prob;
  int32_t max_in_flight = 1;  // 2: as a device with a queue of its own
  // Compute a step as late as its Wait allows instead of in Submit: what stands in memory by then
  // counts, as it may on a device.
  bool lazy = false;
};

// What the fake model draws: a pure function of the whole token history and the sampler's row.
SampledToken FakeDraw(const FakeModelOptions& model, uint64_t history_hash,
                      const kernels::SampleRow& row);
// The most likely tokens behind that history, as rows of beams get them.
std::vector<TokenLogprob> FakeCandidates(const FakeModelOptions& model, uint64_t history_hash,
                                         int32_t count);
// What the fake model says of a token of a prompt behind that history.
TokenScore FakeScore(uint64_t history_hash, TokenId token, int32_t alternatives);
// What FakeRunner computes from a KV cache that holds exactly `tokens`.
uint64_t FakeHistoryHash(const kernels::KvLayout& layout, std::span<const TokenId> tokens);

// Faults and pauses of a FakeRunner, settable from the test's thread while the engine owns the
// runner.
class FakeRunnerControl {
 public:
  // Wait() of every step blocks until Resume.
  void Pause();
  void Resume();
  // Wait() of the next step returns an error, and so does that of every step behind it.
  void FailNextStep() { fail_next_ = true; }
  // Called on the engine thread with every plan.
  void set_on_step(std::function<void(const StepPlan&)> on_step);
  uint64_t steps() const { return steps_; }

 private:
  friend class FakeRunner;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void(const StepPlan&)> on_step_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> fail_next_{false};
  std::atomic<uint64_t> steps_{0};
};

// A model whose KV is a fingerprint of (token, position, layer, K or V, head) and whose next token
// is a hash of what it reads back from the arena through the row's block table. Wrong tables, lost
// or foreign KV and bad handoffs therefore give wrong tokens. It checks the plan's own contract
// too: rows fit their blocks, no block is written by two rows and no slot is used by two, and a row
// that feeds the last token of its slot finds its own there.
class FakeRunner final : public ModelRunner {
 public:
  // `host` is the second arena that plans may swap to.
  FakeRunner(const kernels::PagedKv& kv, FakeModelOptions model,
             std::shared_ptr<FakeRunnerControl> control = nullptr,
             const kernels::PagedKv& host = {});

  absl::Status Submit(const StepPlan& plan) override;
  absl::StatusOr<StepOutput> Wait() override;
  uint64_t operations_finished() const override { return operations_; }
  int32_t max_in_flight() const override { return model_.max_in_flight; }

 private:
  struct Drawn {
    SequenceId sequence;
    TokenId token = 0;
  };
  struct Step {
    const StepPlan* plan;
    std::optional<StepOutput> output;
  };
  void CheckPlan(const StepPlan& plan) const;
  void CheckRow(const StepRow& row) const;
  StepOutput Compute(const StepPlan& plan);
  TokenId LastDrawn(const StepRow& row) const;
  void Store(const StepRow& row) const;
  SampledToken Draw(const StepRow& row, int32_t index);
  TokenScore Score(const StepRow& row, size_t i) const;
  uint64_t ReadHistory(const StepRow& row, int32_t end) const;  // of tokens [0, end)

  void CopyBlocks(const StepPlan& plan) const;

  const kernels::PagedKv kv_;
  const kernels::PagedKv host_;
  const FakeModelOptions model_;
  const std::shared_ptr<FakeRunnerControl> control_;  // the test holds the other end
  std::deque<Step> steps_;                            // submitted, not waited for
  std::map<int32_t, Drawn> last_;                     // by slot
  bool broken_ = false;
  std::atomic<uint64_t> operations_{0};
};

}  // namespace baton
