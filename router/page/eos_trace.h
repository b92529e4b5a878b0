#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace baton {

// The probability of an end over the steps of one answer, in at most kCells cells however long it
// becomes: cells begin at one step each and are merged in pairs whenever there are too many. A cell
// has the highest probability of its steps, because ends show as peaks.
class EosTrace final {
 public:
  static constexpr size_t kCells = 64;

  // Of the next step. NaN, where the model has no EOS id, counts as 0.
  void Add(float eos_prob);

  int32_t steps() const { return steps_; }
  int32_t steps_per_cell() const { return per_cell_; }
  const std::vector<float>& cells() const { return cells_; }  // the last may have fewer steps

 private:
  void MergePairs();

  int32_t steps_ = 0;
  int32_t per_cell_ = 1;
  std::vector<float> cells_;
};

}  // namespace baton
