// What attention computed for a task's rows. Compiled once per target: no include guard but a
// toggle.
#if defined(BATON_KERNELS_CPU_ATTENTION_ATTENTION_RESULTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATON_KERNELS_CPU_ATTENTION_ATTENTION_RESULTS_INL_H_
#undef BATON_KERNELS_CPU_ATTENTION_ATTENTION_RESULTS_INL_H_
#else
#define BATON_KERNELS_CPU_ATTENTION_ATTENTION_RESULTS_INL_H_
#endif

#include <algorithm>

#include "kernels/cpu/attention/attention_tile-inl.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

// The results of a task's rows, of the split at work and of all before it: `width` floats a row.
class AttentionResults {
 public:
  AttentionResults(ScratchCutter& scratch, int64_t rows, int64_t width)
      : rows_(rows),
        width_(width),
        outs_(scratch.Take(rows * width)),
        split_outs_(scratch.Take(rows * width)),
        highest_(scratch.Take(rows)),
        total_(scratch.Take(rows)),
        split_highest_(scratch.Take(rows)),
        split_total_(scratch.Take(rows)) {
    std::fill_n(total_, rows, 0.0f);
  }

  const float* out(int64_t row) const { return outs_ + row * width_; }
  float total(int64_t row) const { return total_[row]; }
  float* split_out(int64_t row) { return split_outs_ + row * width_; }

  void BeginSplit(int64_t row, SplitSoftmax softmax) {
    split_highest_[row] = softmax.highest;
    split_total_[row] = softmax.total;
    std::fill_n(split_out(row), width_, 0.0f);
  }
  void SaveSplit(float* to) const {
    to = std::copy_n(split_outs_, rows_ * width_, to);
    to = std::copy_n(split_highest_, rows_, to);
    std::copy_n(split_total_, rows_, to);
  }
  void LoadSplit(const float* from) {
    std::copy_n(from, rows_ * width_, split_outs_);
    std::copy_n(from + rows_ * width_, rows_, split_highest_);
    std::copy_n(from + rows_ * (width_ + 1), rows_, split_total_);
  }
  void Merge(int64_t row);

 private:
  const int64_t rows_;
  const int64_t width_;
  float* const outs_;        // [rows, width]
  float* const split_outs_;  // [rows, width]
  float* const highest_;     // [rows], as all below
  float* const total_;
  float* const split_highest_;
  float* const split_total_;
};

// Adds the results of the split at work to those of the ones before it.
inline void AttentionResults::Merge(int64_t row) {
  float* out = outs_ + row * width_;
  const float* part = split_out(row);
  if (total_[row] == 0) {
    std::copy_n(part, width_, out);
    highest_[row] = split_highest_[row];
    total_[row] = split_total_[row];
    return;
  }
  const auto before = hn::Set(kFloat, highest_[row]);
  const auto now = hn::Set(kFloat, split_highest_[row]);
  const auto highest = hn::Max(before, now);
  const auto keep = Exp(hn::Sub(before, highest));
  const auto add = Exp(hn::Sub(now, highest));
  const auto total = hn::Mul(hn::Set(kFloat, total_[row]), keep);
  total_[row] = hn::GetLane(hn::MulAdd(hn::Set(kFloat, split_total_[row]), add, total));
  highest_[row] = hn::GetLane(highest);
  for (int64_t i = 0; i < width_; i += kLanes) {
    const auto kept = hn::Mul(hn::LoadU(kFloat, out + i), keep);
    hn::StoreU(hn::MulAdd(hn::LoadU(kFloat, part + i), add, kept), kFloat, out + i);
  }
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#endif  // toggle
