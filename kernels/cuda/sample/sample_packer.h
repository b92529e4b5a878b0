#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/cta/sample_data.h"
#include "kernels/sampling.h"

namespace baton::kernels::cuda {

// How much a sampler has room for.
struct SamplerLimits {
  int32_t vocab = 0;
  int32_t rows = 0;               // of one step
  int32_t slots = 1 << 16;        // SampleRow::slot is below this
  int32_t max_top_logprobs = 20;  // of one row
  // Numbers for the ids, biases and histories of one launch: see SamplerListNumbers.
  int32_t list_capacity = 1 << 20;
  // Entries of penalty counts, each of `vocab` 32-bit numbers. A sequence with penalties keeps one
  // as long as there are enough; the history of a sequence that lost its entry is counted anew. At
  // least `rows`; 0 means as many.
  int32_t count_entries = 0;

  int32_t entries() const { return count_entries > 0 ? count_entries : rows; }
  absl::Status Check() const;
};

// The host's half of sampling on a device: turns SampleRows into what the kernels read, and knows
// which penalty counts the device already holds. It owns no device memory, and one thread uses it.
class SamplePacker {
 public:
  explicit SamplePacker(const SamplerLimits& limits);

  // A token that the device draws and the host has yet to see. Slot -1 means that nobody waits.
  struct Drawing {
    int32_t slot = -1;
    uint32_t position = 0;
  };
  struct Packed {
    int32_t end = 0;                  // rows [first, end) fitted
    int32_t list_size = 0;            // ints of `lists` in use
    std::vector<CountsReset> resets;  // to be done before the rows are sampled
  };

  // Packs rows[first, …) until `lists` is full. params[i] belongs to rows[i]; those of rows that
  // are not packed are set inactive. `drawings` gets an entry for each packed row. INVALID_ARGUMENT
  // for a row that no kernel can sample, RESOURCE_EXHAUSTED when one row alone is too large for
  // `lists`.
  absl::StatusOr<Packed> Pack(std::span<const SampleRow> rows, int32_t first,
                              std::span<SampleParams> params, std::span<int32_t> lists,
                              std::span<Drawing> drawings);

  // Tells the packer that the token of a drawing has reached the host.
  void Seen(const Drawing& drawing, int32_t token);

 private:
  // What the device has counted in an entry: the ids `known` here, then `in_flight` more that it
  // drew and the host has not seen.
  struct Entry {
    int32_t slot = -1;  // whose it is
    uint64_t step = 0;  // that used it last
    std::vector<int32_t> known;
    size_t prompt = std::numeric_limits<size_t>::max();  // ids of the prompt; at first no history
    int32_t in_flight = 0;

    void Forget() { *this = {.slot = slot, .step = step}; }
  };
  class ListWriter;

  absl::Status CheckRow(const SampleRow& row) const;
  void KeepEntriesOf(std::span<const SampleRow> rows);
  int32_t EntryFor(const SampleRow& row);
  bool InSync(const Entry& entry, const SampleRow& row) const;
  void PackRow(const SampleRow& row, ListWriter& lists, SampleParams* params);
  void PackPatches(const SampleRow& row, ListWriter& lists, SampleParams* params);
  // Makes the entry of the row's penalties hold its history.
  void PackCounts(const SampleRow& row, ListWriter& lists, SampleParams* params,
                  std::vector<CountsReset>* resets);
  bool LacksLast(const Entry& entry, const SampleRow& row) const;
  CountsReset Append(const SampleRow& row, int32_t entry, ListWriter& lists);
  CountsReset Reset(const SampleRow& row, int32_t entry, ListWriter& lists);

  const SamplerLimits limits_;
  uint64_t step_ = 0;
  std::vector<Entry> entries_;
  std::vector<int32_t> entry_of_slot_;  // [slots], -1: none
  std::vector<std::pair<int32_t, float>> patches_;
};

}  // namespace baton::kernels::cuda
