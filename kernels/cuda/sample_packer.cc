#include "kernels/cuda/sample_packer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "kernels/sample_processors.h"

namespace baton::kernels::cuda {
namespace {

constexpr float kMask = -std::numeric_limits<float>::infinity();

bool HasPenalty(const SampleRow& row) {
  return row.repetition_penalty != 1 || row.presence_penalty != 0 || row.frequency_penalty != 0;
}

// The last id before the drawn one is known on the device only.
bool DevicePending(const SampleRow& row) { return row.pending_output && row.pending_id < 0; }

// Prompt, output and, where it is known, the pending id.
class KnownIds {
 public:
  explicit KnownIds(const SampleRow& row) : row_(row) {}
  size_t size() const { return SamplePosition(row_) - (DevicePending(row_) ? 1 : 0); }
  int32_t operator[](size_t i) const {
    if (i < row_.prompt.size()) return row_.prompt[i];
    i -= row_.prompt.size();
    return i < row_.output.size() ? row_.output[i] : row_.pending_id;
  }
  bool StartsWith(std::span<const int32_t> ids) const {
    if (ids.size() > size()) return false;
    const size_t prompt = std::min(ids.size(), row_.prompt.size());
    const size_t output = std::min(ids.size() - prompt, row_.output.size());
    return std::equal(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(prompt),
                      row_.prompt.begin()) &&
           std::equal(ids.begin() + static_cast<ptrdiff_t>(prompt),
                      ids.begin() + static_cast<ptrdiff_t>(prompt + output), row_.output.begin()) &&
           (prompt + output == ids.size() || ids.back() == row_.pending_id);
  }

 private:
  const SampleRow& row_;
};

// As MaskRepeatedNgrams of kernels/sample_processors.h.
void BanRepeatedNgrams(const SampleRow& row, std::vector<std::pair<int32_t, float>>* patches) {
  const KnownIds ids(row);
  const size_t prefix = static_cast<size_t>(row.no_repeat_ngram_size) - 1;
  for (size_t start = 0; start + prefix < ids.size(); ++start) {
    size_t same = 0;
    while (same < prefix && ids[start + same] == ids[ids.size() - prefix + same]) ++same;
    if (same == prefix) patches->emplace_back(ids[start + prefix], kMask);
  }
}

}  // namespace

absl::Status SamplerLimits::Check() const {
  if (vocab < 1 || vocab > kMaxVocab || rows < 1 || slots < 0 || max_top_logprobs < 0 ||
      max_top_logprobs > kDrawThreads || list_capacity < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a sampler for vocabulary ", vocab, ", ", rows, " rows, ", slots, " slots, ",
        max_top_logprobs, " top logprobs, ", list_capacity, " list entries; expected 1 to ",
        kMaxVocab, ", at least 1, at least 0, 0 to ", kDrawThreads, ", at least 1"));
  }
  return absl::OkStatus();
}

// Appends to a fixed array; what does not fit is counted and makes `full`.
class SamplePacker::ListWriter {
 public:
  ListWriter(std::span<int32_t> lists, size_t size) : lists_(lists), size_(size) {}
  size_t size() const { return size_; }
  bool full() const { return size_ > lists_.size(); }
  void Add(int32_t value) {
    if (size_ < lists_.size()) lists_[size_] = value;
    ++size_;
  }
  ListRange Begin() const { return {.begin = static_cast<int32_t>(size_), .count = 0}; }
  ListRange Range(ListRange begun) const {
    return {.begin = begun.begin, .count = static_cast<int32_t>(size_) - begun.begin};
  }

 private:
  std::span<int32_t> lists_;
  size_t size_;
};

SamplePacker::SamplePacker(const SamplerLimits& limits)
    : limits_(limits),
      histories_(static_cast<size_t>(limits.count_entries())),
      taken_(static_cast<size_t>(limits.count_entries())) {}

absl::Status SamplePacker::CheckRow(const SampleRow& row) const {
  if (row.slot >= limits_.slots) {
    return absl::InvalidArgumentError(
        absl::StrCat("a row of slot ", row.slot, "; the sampler has ", limits_.slots, " slots"));
  }
  if (row.num_top_logprobs > limits_.max_top_logprobs) {
    return absl::InvalidArgumentError(absl::StrCat("a row asks for ", row.num_top_logprobs,
                                                   " top logprobs; the sampler was made for ",
                                                   limits_.max_top_logprobs));
  }
  if (DevicePending(row) && (row.slot < 0 || row.no_repeat_ngram_size > 0)) {
    return absl::InvalidArgumentError(
        "a row's last id is known on the device only; it needs a slot and no n-gram mask");
  }
  return absl::OkStatus();
}

// A slot's counts have its number; a row without a slot takes an entry that no row of the step
// uses.
int32_t SamplePacker::EntryFor(const SampleRow& row, std::span<const SampleRow> rows) {
  if (row.slot >= 0) return row.slot;
  for (const SampleRow& other : rows) {
    if (other.slot >= 0) taken_[static_cast<size_t>(other.slot)] = true;
  }
  const auto free = std::find(taken_.rbegin(), taken_.rend(), false);
  BATON_CHECK(free != taken_.rend()) << rows.size() << " rows for " << taken_.size() << " entries";
  *free = true;
  return static_cast<int32_t>(taken_.rend() - free) - 1;
}

bool SamplePacker::InSync(const History& history, const SampleRow& row) const {
  if (row.slot < 0 || history.prompt != row.prompt.size()) return false;
  const KnownIds ids(row);
  const std::span<const int32_t> known = history.known;
  if (!DevicePending(row)) {
    return history.in_flight == 0 && known.size() == ids.size() && ids.StartsWith(known);
  }
  if (history.in_flight == 1) return known.size() == ids.size() && ids.StartsWith(known);
  return history.in_flight == 0 && known.size() == ids.size() + 1 &&
         ids.StartsWith(known.first(ids.size()));
}

CountsReset SamplePacker::Reset(const SampleRow& row, int32_t entry, ListWriter& lists) {
  History& history = histories_[static_cast<size_t>(entry)];
  const KnownIds ids(row);
  history.known.clear();
  history.prompt = row.prompt.size();
  history.in_flight = DevicePending(row) ? 1 : 0;
  CountsReset reset{.entry = entry, .pending_slot = DevicePending(row) ? row.slot : -1};
  const auto in_range = [&](int32_t id) { return id >= 0 && id < limits_.vocab; };
  ListRange begun = lists.Begin();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i == history.prompt) {
      reset.prompt = lists.Range(begun);
      begun = lists.Begin();
    }
    history.known.push_back(ids[i]);
    if (in_range(ids[i])) lists.Add(ids[i]);
  }
  (ids.size() > history.prompt ? reset.output : reset.prompt) = lists.Range(begun);
  return reset;
}

void SamplePacker::PackPatches(const SampleRow& row, ListWriter& lists, SampleParams* params) {
  patches_.assign(row.logit_bias.begin(), row.logit_bias.end());
  if (row.no_repeat_ngram_size > 0) BanRepeatedNgrams(row, &patches_);
  if (row.mask_stop_ids) {
    for (const int32_t id : row.stop_ids) patches_.emplace_back(id, kMask);
  }
  // Biases of one id keep their order, since each step rounds; a mask ends at -infinity in any.
  std::stable_sort(patches_.begin(), patches_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const ListRange begun = lists.Begin();
  const std::pair<int32_t, float>* last = nullptr;
  for (const auto& patch : patches_) {
    if (patch.first < 0 || patch.first >= limits_.vocab) continue;
    if (patch.second == kMask && last != nullptr && *last == patch) continue;
    lists.Add(patch.first);
    lists.Add(std::bit_cast<int32_t>(patch.second));
    last = &patch;
  }
  params->patches = lists.Range(begun);
  params->patches.count /= 2;
}

void SamplePacker::PackRow(const SampleRow& row, ListWriter& lists, SampleParams* params) {
  *params = {.temperature = row.temperature,
             .top_p = row.top_p,
             .min_p = row.min_p,
             .top_k = row.top_k,
             .repetition_penalty = row.repetition_penalty,
             .presence_penalty = row.presence_penalty,
             .frequency_penalty = row.frequency_penalty,
             .num_top_logprobs = std::max(row.num_top_logprobs, 0),
             .seed = row.seed,
             .position = SamplePosition(row),
             .active = 1,
             .redraw_eos = row.redraw_eos ? 1 : 0,
             .slot = row.slot};
  const auto add_distinct = [&](std::span<const int32_t> ids) {
    const ListRange begun = lists.Begin();
    ForEachDistinct(ids, static_cast<size_t>(limits_.vocab), [&](int32_t id) { lists.Add(id); });
    return lists.Range(begun);
  };
  params->eos = add_distinct(row.eos_ids);
  params->stop = add_distinct(row.stop_ids);
  PackPatches(row, lists, params);
}

absl::StatusOr<SamplePacker::Packed> SamplePacker::Pack(std::span<const SampleRow> rows,
                                                        int32_t first,
                                                        std::span<SampleParams> params,
                                                        std::span<int32_t> lists,
                                                        std::span<Drawing> drawings) {
  BATON_CHECK(rows.size() <= params.size()) << rows.size() << " rows, " << params.size();
  for (SampleParams& p : params) p = SampleParams();
  if (first == 0) taken_.assign(taken_.size(), false);
  Packed packed{.end = first};
  size_t used = 0;
  for (; packed.end < static_cast<int32_t>(rows.size()); ++packed.end) {
    const SampleRow& row = rows[static_cast<size_t>(packed.end)];
    SampleParams& into = params[static_cast<size_t>(packed.end)];
    const absl::Status valid = CheckRow(row);
    if (!valid.ok()) return valid;
    ListWriter writer(lists, used);
    PackRow(row, writer, &into);
    Drawing drawing{.entry = row.slot, .position = into.position};
    if (HasPenalty(row)) {
      drawing.entry = EntryFor(row, rows);
      into.counts = drawing.entry;
      History& history = histories_[static_cast<size_t>(drawing.entry)];
      const bool stale = !InSync(history, row);
      const CountsReset reset = stale ? Reset(row, drawing.entry, writer) : CountsReset();
      ++history.in_flight;
      if (writer.full()) {  // the row is packed again, and fills its entry then
        history = History();
      } else if (stale) {
        packed.resets.push_back(reset);
      }
    }
    if (writer.full()) {
      into = SampleParams();
      if (packed.end > first) break;
      return absl::ResourceExhaustedError(
          absl::StrCat("the ids, biases and history of one row are ", writer.size(),
                       " numbers; the sampler has room for ", lists.size()));
    }
    drawings[static_cast<size_t>(packed.end)] = drawing;
    used = writer.size();
  }
  packed.list_size = static_cast<int32_t>(used);
  return packed;
}

void SamplePacker::Seen(const Drawing& drawing, int32_t token) {
  if (drawing.entry < 0) return;
  History& history = histories_[static_cast<size_t>(drawing.entry)];
  // Another sequence may have taken the entry meanwhile.
  if (history.in_flight == 0 || history.known.size() != drawing.position) return;
  history.known.push_back(token);
  --history.in_flight;
}

}  // namespace baton::kernels::cuda
