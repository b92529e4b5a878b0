#include "kernels/cuda/graph/step_inputs.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace baton::kernels::cuda {
namespace {

constexpr size_t kInputStagings = 2;

// Hands out parts of a buffer, each at a multiple of 16 bytes.
class Placer final {
 public:
  explicit Placer(std::byte* base) : base_(base) {}

  template <typename T>
  T* Take(int64_t count) {
    T* const at = reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(base_) + used_);
    used_ += (static_cast<size_t>(count) * sizeof(T) + 15) / 16 * 16;
    return at;
  }
  size_t used() const { return used_; }

 private:
  std::byte* const base_;
  size_t used_ = 0;
};

int64_t BlocksOf(const StepLayout::Sequence& sequence, int block_size) {
  return (int64_t{sequence.context} + block_size - 1) / block_size;
}

size_t BlockCount(const StepLayout& layout, int block_size) {
  int64_t count = 0;
  for (const StepLayout::Sequence& sequence : layout.sequences) {
    count += BlocksOf(sequence, block_size);
  }
  return static_cast<size_t>(count);
}

// Writes `values` and then `padding`, up to `size` entries.
template <typename T>
void FillPadded(std::span<const T> values, T padding, int64_t size, T* out) {
  BATON_CHECK(static_cast<int64_t>(values.size()) <= size) << values.size() << " into " << size;
  std::copy(values.begin(), values.end(), out);
  std::fill(out + values.size(), out + size, padding);
}

void FillRows(const StepLayout& layout, const KvLayout& kv, const StepSizes& sizes,
              StepArrays& arrays) {
  FillPadded(layout.tokens, 0, sizes.rows, arrays.tokens);
  FillPadded(layout.positions, 0, sizes.rows, arrays.positions);
  FillPadded(layout.sample_rows, 0, sizes.samples, arrays.sample_rows);
  std::fill_n(arrays.cache_index, sizes.rows, int64_t{-1});
  std::fill_n(arrays.row_sequences, sizes.rows, -1);
  for (size_t i = 0; i < layout.sequences.size(); ++i) {
    const StepLayout::Sequence& sequence = layout.sequences[i];
    for (int32_t row = sequence.token_begin; row < sequence.token_begin + sequence.num_tokens;
         ++row) {
      const int32_t position = layout.positions[row];
      arrays.cache_index[row] = int64_t{sequence.blocks[position / kv.block_size]} * kv.block_size +
                                position % kv.block_size;
      arrays.row_sequences[row] = static_cast<int32_t>(i);
    }
  }
}

void FillSequences(const StepLayout& layout, const KvLayout& kv, const StepSizes& sizes,
                   StepArrays& arrays) {
  arrays.row_indptr[0] = 0;
  arrays.block_indptr[0] = 0;
  for (int64_t i = 0; i < sizes.sequences; ++i) {
    if (i >= static_cast<int64_t>(layout.sequences.size())) {
      arrays.row_indptr[i + 1] = arrays.row_indptr[i];
      arrays.block_indptr[i + 1] = arrays.block_indptr[i];
      arrays.last_block_tokens[i] = 0;
      continue;
    }
    const StepLayout::Sequence& sequence = layout.sequences[i];
    const int64_t count = BlocksOf(sequence, kv.block_size);
    std::copy_n(sequence.blocks.begin(), count, arrays.blocks + arrays.block_indptr[i]);
    arrays.row_indptr[i + 1] = arrays.row_indptr[i] + sequence.num_tokens;
    arrays.block_indptr[i + 1] = arrays.block_indptr[i] + static_cast<int32_t>(count);
    arrays.last_block_tokens[i] = (sequence.context - 1) % kv.block_size + 1;
  }
}

void FillPlan(const AttentionPlan& plan, const StepSizes& sizes, const StepSizes::Grid& grid,
              PlanInputs& inputs) {
  const std::span<const int32_t> narrow(plan.narrow_sequence);
  FillPadded(narrow, 0, grid.narrow, inputs.narrow_sequence);
  FillPadded(std::span<const int32_t>(plan.narrow_split), 0, grid.narrow, inputs.narrow_split);
  std::fill_n(inputs.narrow_tile, grid.narrow, 0);
  std::fill_n(inputs.narrow_valid, grid.narrow, false);
  std::fill_n(inputs.narrow_valid, narrow.size(), true);
  FillPadded(std::span<const int32_t>(plan.wide_sequence), 0, grid.wide, inputs.wide_sequence);
  FillPadded(std::span<const int32_t>(plan.wide_tile), 0, grid.wide, inputs.wide_tile);
  FillPadded(std::span<const int32_t>(plan.partial_indptr), plan.partial_indptr.back(),
             sizes.sequences + 1, inputs.partial_indptr);
  FillPadded(std::span<const int32_t>(plan.merge_indptr), plan.merge_indptr.back(), sizes.rows + 1,
             inputs.merge_indptr);
  *inputs.split_tokens = plan.split_tokens;
}

}  // namespace

size_t PlaceArrays(const StepSizes& sizes, std::byte* base, StepArrays& arrays) {
  Placer placer(base);
  arrays.cache_index = placer.Take<int64_t>(sizes.rows);
  arrays.tokens = placer.Take<int32_t>(sizes.rows);
  arrays.positions = placer.Take<int32_t>(sizes.rows);
  arrays.row_sequences = placer.Take<int32_t>(sizes.rows);
  arrays.sample_rows = placer.Take<int32_t>(sizes.samples);
  arrays.row_indptr = placer.Take<int32_t>(sizes.sequences + 1);
  arrays.block_indptr = placer.Take<int32_t>(sizes.sequences + 1);
  arrays.last_block_tokens = placer.Take<int32_t>(sizes.sequences);
  arrays.plans.resize(sizes.grids.size());
  for (size_t i = 0; i < sizes.grids.size(); ++i) {
    const StepSizes::Grid& grid = sizes.grids[i];
    PlanInputs& plan = arrays.plans[i];
    plan.narrow_sequence = placer.Take<int32_t>(grid.narrow);
    plan.narrow_split = placer.Take<int32_t>(grid.narrow);
    plan.narrow_tile = placer.Take<int32_t>(grid.narrow);
    plan.narrow_valid = placer.Take<bool>(grid.narrow);
    plan.wide_sequence = placer.Take<int32_t>(grid.wide);
    plan.wide_tile = placer.Take<int32_t>(grid.wide);
    plan.partial_indptr = placer.Take<int32_t>(sizes.sequences + 1);
    plan.merge_indptr = placer.Take<int32_t>(sizes.rows + 1);
    plan.split_tokens = placer.Take<int32_t>(1);
  }
  arrays.blocks = placer.Take<int32_t>(0);
  return placer.used();
}

void FillArrays(const StepLayout& layout, const KvLayout& kv, const StepSizes& sizes,
                std::span<const AttentionPlan* const> plans, StepArrays& arrays) {
  BATON_CHECK(plans.size() == sizes.grids.size());
  FillRows(layout, kv, sizes, arrays);
  FillSequences(layout, kv, sizes, arrays);
  for (size_t i = 0; i < plans.size(); ++i) {
    FillPlan(*plans[i], sizes, sizes.grids[i], arrays.plans[i]);
  }
}

absl::StatusOr<StepInputs> StepInputs::Create(size_t bytes) {
  StepInputs inputs;
  BATON_RETURN_IF_ERROR(inputs.Reserve(bytes));
  return inputs;
}

absl::Status StepInputs::Reserve(size_t bytes) {
  BATON_ASSIGN_OR_RETURN(memory_, DeviceMemory::Allocate(bytes));
  staging_.clear();
  for (size_t i = 0; i < kInputStagings; ++i) {
    Staging& staging = staging_.emplace_back();
    BATON_ASSIGN_OR_RETURN(staging.memory, PinnedMemory::Allocate(bytes));
    BATON_ASSIGN_OR_RETURN(staging.copied, Event::Create());
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> StepInputs::Send(const StepLayout& layout, const KvLayout& kv,
                                      const StepSizes& sizes,
                                      std::span<const AttentionPlan* const> plans,
                                      StreamHandle stream) {
  StepArrays host;
  const size_t fixed = PlaceArrays(sizes, nullptr, host);
  const size_t bytes = fixed + BlockCount(layout, kv.block_size) * sizeof(int32_t);
  const bool grow = bytes > memory_->size();
  if (grow) {
    // Nothing may read the old buffers any more when they go.
    BATON_RETURN_IF_ERROR(WaitFor(stream));
    BATON_RETURN_IF_ERROR(Reserve(std::max(bytes, 2 * memory_->size())));
  }
  Staging& staging = staging_[turn_++ % kInputStagings];
  BATON_RETURN_IF_ERROR(staging.copied->Synchronize());
  PlaceArrays(sizes, static_cast<std::byte*>(staging.memory->data()), host);
  FillArrays(layout, kv, sizes, plans, host);
  PlaceArrays(sizes, static_cast<std::byte*>(memory_->data()), device_arrays_);
  BATON_RETURN_IF_ERROR(CopyToDevice(memory_->data(), staging.memory->data(), bytes, stream));
  BATON_RETURN_IF_ERROR(staging.copied->Record(stream));
  return grow;
}

}  // namespace baton::kernels::cuda
