#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/attention/attention_plan.h"
#include "kernels/cuda/device/runtime.h"

namespace baton::kernels::cuda {

// How large the arrays of a step are, with padding. A padding row has token 0 and position 0, is
// stored nowhere and belongs to no sequence; a padding sequence has no rows.
struct StepSizes {
  int64_t rows = 0;
  int64_t samples = 0;
  int64_t sequences = 0;
  // How many entries the narrow and the wide launch of an AttentionPlan have, with padding.
  struct Grid {
    int32_t narrow = 0;
    int32_t wide = 0;
    friend bool operator==(const Grid&, const Grid&) = default;
    friend auto operator<=>(const Grid&, const Grid&) = default;
  };
  std::vector<Grid> grids;
};

// Where the arrays of an AttentionPlan are; FlashInferArgs says what they mean.
struct PlanInputs {
  int32_t* narrow_sequence = nullptr;
  int32_t* narrow_split = nullptr;
  int32_t* narrow_tile = nullptr;
  int32_t* wide_sequence = nullptr;
  int32_t* wide_tile = nullptr;
  int32_t* partial_indptr = nullptr;
  int32_t* merge_indptr = nullptr;
  int32_t* split_tokens = nullptr;
  bool* narrow_valid = nullptr;
};

// The arrays of a step, in the memory of the host or of the device. Their offsets follow from
// StepSizes alone, so that a captured step finds the arrays of a later step where its own were.
struct StepArrays {
  // [rows] block id * block_size + the token's position in the block, or -1: stored nowhere.
  int64_t* cache_index = nullptr;
  int32_t* tokens = nullptr;             // [rows]
  int32_t* positions = nullptr;          // [rows]
  int32_t* row_sequences = nullptr;      // [rows] or -1
  int32_t* sample_rows = nullptr;        // [samples]
  int32_t* row_indptr = nullptr;         // [sequences + 1]
  int32_t* block_indptr = nullptr;       // [sequences + 1]
  int32_t* last_block_tokens = nullptr;  // [sequences]
  std::vector<PlanInputs> plans;
  int32_t* blocks = nullptr;  // block tables, one after the other: the only part of variable length
};

// Lays the arrays out from `base`; returns the bytes before `blocks`.
size_t PlaceArrays(const StepSizes& sizes, std::byte* base, StepArrays& arrays);

// Writes a step into `arrays`, which lie in the host's memory.
void FillArrays(const StepLayout& layout, const KvLayout& kv, const StepSizes& sizes,
                std::span<const AttentionPlan* const> plans, StepArrays& arrays);

// The fixed buffers that the arrays of steps lie in: one on the device, and pinned ones of the host
// that take turns, so that a step can be written while the copy of the one before is under way.
class StepInputs final {
 public:
  static absl::StatusOr<StepInputs> Create(size_t bytes);

  // Packs a step and queues its copy to the device. Returns true if the device's buffer had to
  // move, so that addresses which a graph has captured are void.
  absl::StatusOr<bool> Send(const StepLayout& layout, const KvLayout& kv, const StepSizes& sizes,
                            std::span<const AttentionPlan* const> plans, StreamHandle stream);
  const StepArrays& device() const { return device_arrays_; }

 private:
  struct Staging {
    std::unique_ptr<PinnedMemory> memory;
    std::optional<Event> copied;
  };
  StepInputs() = default;
  absl::Status Reserve(size_t bytes);

  std::unique_ptr<DeviceMemory> memory_;
  std::vector<Staging> staging_;
  size_t turn_ = 0;
  StepArrays device_arrays_;
};

}  // namespace baton::kernels::cuda
