#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/sample_data.h"
#include "kernels/sampling.h"

namespace baton::kernels::cuda {

struct SamplerLimits {
  int32_t vocab = 0;
  int32_t rows = 0;                 // of one step
  int32_t slots = 0;                // SampleRow::slot is below this
  int32_t max_top_logprobs = 20;    // of one row
  int32_t list_capacity = 1 << 20;  // ints for the ids, biases and histories of one launch

  // Rows of penalty counts, each `vocab` 32-bit numbers: one per slot, and enough for a step
  // without slots.
  int32_t count_entries() const { return slots > rows ? slots : rows; }
  absl::Status Check() const;
};

// The host's half of sampling: turns SampleRows into what the kernels read, and knows which penalty
// counts the device already holds. Owns no device memory. One thread.
class SamplePacker {
 public:
  explicit SamplePacker(const SamplerLimits& limits);

  // A drawn token that the host has yet to see, per row, and the entry of counts that may hold it
  // (-1: none).
  struct Drawing {
    int32_t entry = -1;
    uint32_t position = 0;
  };
  struct Packed {
    int32_t end = 0;                  // rows [first, end) fitted
    int32_t list_size = 0;            // ints of `lists` in use
    std::vector<CountsReset> resets;  // to be done before the rows are sampled
  };

  // Packs rows[first, …) until `lists` is full; params[i] belongs to rows[i], the others are set
  // inactive. `drawings` gets those of the packed rows. INVALID_ARGUMENT for a row that no kernel
  // can sample, RESOURCE_EXHAUSTED when one row alone is too large for `lists`.
  absl::StatusOr<Packed> Pack(std::span<const SampleRow> rows, int32_t first,
                              std::span<SampleParams> params, std::span<int32_t> lists,
                              std::span<Drawing> drawings);

  // The token of a drawing has reached the host.
  void Seen(const Drawing& drawing, int32_t token);

 private:
  // Ids whose counts an entry holds: those known here, then `in_flight` drawn on the device.
  struct History {
    std::vector<int32_t> known;
    size_t prompt = std::numeric_limits<size_t>::max();  // ids of the prompt; at first no history
    int32_t in_flight = 0;
  };
  class ListWriter;

  absl::Status CheckRow(const SampleRow& row) const;
  int32_t EntryFor(const SampleRow& row, std::span<const SampleRow> rows);
  bool InSync(const History& history, const SampleRow& row) const;
  void PackRow(const SampleRow& row, ListWriter& lists, SampleParams* params);
  void PackPatches(const SampleRow& row, ListWriter& lists, SampleParams* params);
  CountsReset Reset(const SampleRow& row, int32_t entry, ListWriter& lists);

  SamplerLimits limits_;
  std::vector<History> histories_;  // [count_entries]
  std::vector<bool> taken_;         // [count_entries] by rows of the step being packed
  std::vector<std::pair<int32_t, float>> patches_;
};

}  // namespace baton::kernels::cuda
