#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "common/model/model_runner.h"
#include "common/model/transformer.h"
#include "kernels/paged_kv.h"

namespace baton {

// Runs the scheduler's step plans on a transformer. On a device that keeps the last token of every
// slot, a second step is launched while one computes, and the host waits for neither. On other
// devices one step runs at a time, and when it begins, the last token of every slot is on the host.
class TransformerRunner final : public ModelRunner {
 public:
  // The arena of `kv`, that on the host, if there is one, and the transformer's backend outlive the
  // runner.
  TransformerRunner(std::unique_ptr<Transformer> transformer, const kernels::PagedKv& kv,
                    const kernels::PagedKv& host = {});

  absl::Status Submit(const StepPlan& plan) override;
  absl::StatusOr<StepOutput> Wait() override;
  uint64_t operations_finished() const override { return transformer_->operations_finished(); }
  int32_t max_in_flight() const override { return device_feeds_ ? 2 : 1; }

  Transformer& transformer() { return *transformer_; }

 private:
  // A step between Submit and Wait: where its samples go, and the slots that they are of.
  struct InFlight {
    std::vector<SampledToken> samples;
    std::vector<int32_t> slots;  // [samples] whose last token it is, or -1
    std::vector<bool> is_score;  // [samples]
    // Tokens of which nothing is computed, and their places in the step's output.
    std::vector<std::pair<size_t, TokenId>> bare;
    std::vector<float> products;  // of the probe, [samples, dims]
  };

  // Queues the copies of blocks that the plan's rows want done.
  absl::Status CopyBlocks(const StepPlan& plan);
  // Lays the plan out as flat arrays in the members below.
  void Flatten(const StepPlan& plan);
  void AddRow(const StepRow& row);
  void AddDraws(const StepRow& row);
  // `begin` is where the row's tokens begin in the step.
  void AddScores(const StepRow& row, int32_t begin);
  int32_t LastDrawn(int32_t slot) const;
  // Fills in `samples` of a step whose results are on the host.
  void GiveProducts(InFlight& step) const;
  void KeepLastDrawn(const InFlight& step);
  static StepOutput OutputOf(InFlight step);

  const std::unique_ptr<Transformer> transformer_;
  const kernels::PagedKv kv_;
  const kernels::PagedKv host_;     // no blocks: there is no second arena
  const bool device_feeds_;         // whether the device knows last tokens, or the host feeds them
  std::deque<InFlight> in_flight_;  // oldest first

  // The arrays of the step that is being submitted; they are kept to reuse their memory.
  std::vector<int32_t> tokens_;     // [tokens]
  std::vector<int32_t> positions_;  // [tokens]
  std::vector<int32_t> blocks_;     // block tables, one after the other
  std::vector<kernels::StepLayout::Sequence> sequences_;
  std::vector<int32_t> sample_rows_;                   // the tokens whose logits are wanted
  std::vector<kernels::SampleRow> sampling_;           // [sample_rows]
  std::vector<SequenceGuide*> guides_;                 // [sample_rows], null without one
  std::vector<std::pair<size_t, TokenId>> bare_;       // as InFlight has them
  size_t draws_ = 0;                                   // of the rows so far, bare ones included
  std::deque<std::vector<uint32_t>> forced_masks_;     // that allow one id each
  std::vector<bool> is_score_;                         // [sample_rows]
  std::vector<std::pair<int32_t, float>> score_bias_;  // what rows of scores point at

  std::vector<int32_t> last_drawn_;  // [slots] where the host feeds last tokens
};

}  // namespace baton
