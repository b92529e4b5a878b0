#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/model/model_runner.h"
#include "common/model/transformer.h"
#include "kernels/paged_kv.h"

namespace baton {

// Runs step plans on a transformer, one at a time: when a step begins, the one before has ended and
// the last token of every slot is on the host.
class TransformerRunner final : public ModelRunner {
 public:
  // The arena of `kv` and the transformer's backend outlive the runner.
  TransformerRunner(std::unique_ptr<Transformer> transformer, const kernels::PagedKv& kv);

  absl::Status Submit(const StepPlan& plan) override;
  absl::StatusOr<StepOutput> Wait() override;
  uint64_t operations_finished() const override { return transformer_->operations_finished(); }

  Transformer& transformer() { return *transformer_; }

 private:
  // The plan as flat arrays, in the members below.
  void Flatten(const StepPlan& plan);
  int32_t LastDrawn(int32_t slot) const;
  void KeepLastDrawn();

  const std::unique_ptr<Transformer> transformer_;
  const kernels::PagedKv kv_;
  bool submitted_ = false;

  // Of the step that runs; kept to reuse their memory.
  std::vector<int32_t> tokens_;     // [tokens]
  std::vector<int32_t> positions_;  // [tokens]
  std::vector<int32_t> blocks_;     // block tables, one after the other
  std::vector<kernels::StepLayout::Sequence> sequences_;
  std::vector<int32_t> sample_rows_;  // last token of each row that samples
  std::vector<kernels::SampleRow> sampling_;
  std::vector<SampledToken> samples_;

  std::vector<int32_t> last_drawn_;  // [slots]
};

}  // namespace baton
