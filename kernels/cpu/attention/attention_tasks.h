#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/attention/paged_attention.h"

namespace baton::kernels::cpu {

// The attention of a step, divided into tasks for some threads. Layers of one shape have the same
// tasks. How the step is divided changes no bit of the results.
class AttentionTasks {
 public:
  // A new step begins.
  void Clear();
  // The tasks of a layer. Those that take longest come first, as far as that is cheap to tell. They
  // are valid until the next call.
  std::span<const AttentionTask> For(std::span<const StepLayout::Sequence> sequences,
                                     const AttentionShape& shape, int threads);

 private:
  void AddSequence(const StepLayout::Sequence& sequence, const AttentionShape& shape,
                   int32_t heads_for_threads);
  void DivideLong(const AttentionShape& shape, int threads);
  void Divide(const AttentionTask& task, SplitRange splits, int64_t parts,
              std::vector<AttentionTask>* divided);
  void PlaceResults(const AttentionShape& shape);

  std::optional<AttentionShape> shape_;  // that the tasks are for
  std::vector<AttentionTask> tasks_;
  std::deque<SharedSplits> shared_;
  std::unique_ptr<float[]> results_;  // of all in `shared_`
  int64_t results_floats_ = 0;
};

}  // namespace baton::kernels::cpu
