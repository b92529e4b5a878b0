#include "kernels/cuda/sample/sample_packer.h"

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

// Whether the last id before the drawn one is known on the device only.
bool DevicePending(const SampleRow& row) { return row.pending_output && row.pending_id < 0; }

// The history of a row: prompt, output and, where the host knows it, the pending id. Given ids are
// none of it.
class KnownIds {
 public:
  explicit KnownIds(const SampleRow& row) : row_(row) {}
  size_t size() const {
    const bool pending = row_.pending_output && !DevicePending(row_);
    return row_.prompt.size() + row_.output.size() + (pending ? 1 : 0);
  }
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

}  // namespace

absl::Status SamplerLimits::Check() const {
  if (vocab < 1 || vocab > kMaxVocab || rows < 1 || slots < 0 || max_top_logprobs < 0 ||
      max_top_logprobs > kDrawThreads || list_capacity < 1 || entries() < rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a sampler for vocabulary ", vocab, ", ", rows, " rows, ", slots, " slots, ",
        max_top_logprobs, " top logprobs, ", list_capacity, " list numbers, ", entries(),
        " entries of counts; expected 1 to ", kMaxVocab, ", at least 1, at least 0, 0 to ",
        kDrawThreads, ", at least 1, at least as many as rows"));
  }
  return absl::OkStatus();
}

// Appends to an array of fixed size. What does not fit is only counted, and makes it `full`.
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
      entries_(static_cast<size_t>(limits.entries())),
      entry_of_slot_(static_cast<size_t>(limits.slots), -1) {}

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
  if (DevicePending(row) && row.slot < 0) {
    return absl::InvalidArgumentError("a row's last id is known on the device only; give its slot");
  }
  return absl::OkStatus();
}

// Marks the entries of these rows as used by this step, so that none of them takes another's.
void SamplePacker::KeepEntriesOf(std::span<const SampleRow> rows) {
  ++step_;
  for (const SampleRow& row : rows) {
    if (row.slot < 0 || row.slot >= limits_.slots) continue;
    const int32_t entry = entry_of_slot_[static_cast<size_t>(row.slot)];
    if (entry >= 0) entries_[static_cast<size_t>(entry)].step = step_;
  }
}

// Returns the entry of the row's slot, or else the one that has not been used for longest.
int32_t SamplePacker::EntryFor(const SampleRow& row) {
  if (row.slot >= 0 && entry_of_slot_[static_cast<size_t>(row.slot)] >= 0) {
    return entry_of_slot_[static_cast<size_t>(row.slot)];
  }
  const auto oldest =
      std::min_element(entries_.begin(), entries_.end(),
                       [](const Entry& a, const Entry& b) { return a.step < b.step; });
  BATON_CHECK(oldest->step < step_) << "more rows in a step than " << entries_.size();
  const auto index = static_cast<int32_t>(oldest - entries_.begin());
  if (oldest->slot >= 0) entry_of_slot_[static_cast<size_t>(oldest->slot)] = -1;
  *oldest = {.slot = row.slot, .step = step_};
  if (row.slot >= 0) entry_of_slot_[static_cast<size_t>(row.slot)] = index;
  return index;
}

bool SamplePacker::InSync(const Entry& entry, const SampleRow& row) const {
  if (row.slot < 0 || entry.prompt != row.prompt.size()) return false;
  const KnownIds ids(row);
  const std::span<const int32_t> known = entry.known;
  if (!DevicePending(row)) {
    return entry.in_flight == 0 && known.size() == ids.size() && ids.StartsWith(known);
  }
  if (entry.in_flight == 1) return known.size() == ids.size() && ids.StartsWith(known);
  return entry.in_flight == 0 && known.size() == ids.size() + 1 &&
         ids.StartsWith(known.first(ids.size()));
}

// Whether the entry only lacks the last ids of the row's history, which the host knows.
bool SamplePacker::LacksLast(const Entry& entry, const SampleRow& row) const {
  if (row.slot < 0 || DevicePending(row)) return false;
  const KnownIds ids(row);
  return entry.in_flight == 0 && entry.prompt == row.prompt.size() &&
         entry.known.size() >= entry.prompt && entry.known.size() < ids.size() &&
         ids.StartsWith(entry.known);
}

// Has the ids counted that the entry lacks.
CountsReset SamplePacker::Append(const SampleRow& row, int32_t index, ListWriter& lists) {
  Entry& entry = entries_[static_cast<size_t>(index)];
  const KnownIds ids(row);
  const ListRange begun = lists.Begin();
  for (size_t i = entry.known.size(); i < ids.size(); ++i) {
    entry.known.push_back(ids[i]);
    if (ids[i] >= 0 && ids[i] < limits_.vocab) lists.Add(ids[i]);
  }
  return {.entry = index, .append = 1, .output = lists.Range(begun)};
}

CountsReset SamplePacker::Reset(const SampleRow& row, int32_t index, ListWriter& lists) {
  Entry& entry = entries_[static_cast<size_t>(index)];
  const KnownIds ids(row);
  entry.known.clear();
  entry.prompt = row.prompt.size();
  entry.in_flight = DevicePending(row) ? 1 : 0;
  CountsReset reset{.entry = index, .pending_slot = DevicePending(row) ? row.slot : -1};
  const auto in_range = [&](int32_t id) { return id >= 0 && id < limits_.vocab; };
  ListRange begun = lists.Begin();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i == entry.prompt) {
      reset.prompt = lists.Range(begun);
      begun = lists.Begin();
    }
    entry.known.push_back(ids[i]);
    if (in_range(ids[i])) lists.Add(ids[i]);
  }
  (ids.size() > entry.prompt ? reset.output : reset.prompt) = lists.Range(begun);
  return reset;
}

void SamplePacker::PackPatches(const SampleRow& row, ListWriter& lists, SampleParams* params) {
  patches_.assign(row.logit_bias.begin(), row.logit_bias.end());
  if (row.eos_bias != 0) {
    for (const int32_t id : row.eos_ids) patches_.emplace_back(id, row.eos_bias);
  }
  for (const int32_t id : row.banned_ids) patches_.emplace_back(id, kMask);
  if (row.mask_stop_ids) {
    for (const int32_t id : row.stop_ids) patches_.emplace_back(id, kMask);
  }
  // The biases of one id keep their order, because each addition rounds. A mask gives -infinity in
  // any.
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
             .slot = row.one_of_several ? -1 : row.slot,
             .adds_count = row.one_of_several ? 0 : 1};
  const auto add_ids = [&](std::span<const int32_t> ids) {
    const ListRange begun = lists.Begin();
    ForEachInVocab(ids, static_cast<size_t>(limits_.vocab), [&](int32_t id) { lists.Add(id); });
    return lists.Range(begun);
  };
  params->eos = add_ids(row.eos_ids);
  params->stop = add_ids(row.stop_ids);
  params->given = add_ids(row.given);
  PackPatches(row, lists, params);
  const ListRange allowed = lists.Begin();
  for (const uint32_t word : row.allowed) lists.Add(std::bit_cast<int32_t>(word));
  params->allowed = lists.Range(allowed);
}

void SamplePacker::PackCounts(const SampleRow& row, ListWriter& lists, SampleParams* params,
                              std::vector<CountsReset>* resets) {
  params->counts = EntryFor(row);
  Entry& entry = entries_[static_cast<size_t>(params->counts)];
  const bool stale = !InSync(entry, row);
  CountsReset reset;
  if (stale) {
    reset = LacksLast(entry, row) ? Append(row, params->counts, lists)
                                  : Reset(row, params->counts, lists);
  }
  if (params->adds_count != 0) ++entry.in_flight;
  if (lists.full()) {  // the row is packed again, and fills its entry then
    entry.Forget();
  } else if (stale) {
    resets->push_back(reset);
  }
}

absl::StatusOr<SamplePacker::Packed> SamplePacker::Pack(std::span<const SampleRow> rows,
                                                        int32_t first,
                                                        std::span<SampleParams> params,
                                                        std::span<int32_t> lists,
                                                        std::span<Drawing> drawings) {
  BATON_CHECK(rows.size() <= params.size()) << rows.size() << " rows, " << params.size();
  for (SampleParams& p : params) p = SampleParams();
  if (first == 0) KeepEntriesOf(rows);
  Packed packed{.end = first};
  size_t used = 0;
  for (; packed.end < static_cast<int32_t>(rows.size()); ++packed.end) {
    const SampleRow& row = rows[static_cast<size_t>(packed.end)];
    SampleParams& into = params[static_cast<size_t>(packed.end)];
    const absl::Status valid = CheckRow(row);
    if (!valid.ok()) return valid;
    ListWriter writer(lists, used);
    PackRow(row, writer, &into);
    if (HasPenalty(row)) PackCounts(row, writer, &into, &packed.resets);
    if (writer.full()) {
      into = SampleParams();
      if (packed.end > first) break;
      return absl::ResourceExhaustedError(
          absl::StrCat("the ids, biases and history of one row are ", writer.size(),
                       " numbers; the sampler has room for ", lists.size()));
    }
    drawings[static_cast<size_t>(packed.end)] = {.slot = into.slot, .position = into.position};
    used = writer.size();
  }
  packed.list_size = static_cast<int32_t>(used);
  return packed;
}

void SamplePacker::Seen(const Drawing& drawing, int32_t token) {
  if (drawing.slot < 0 || entry_of_slot_[static_cast<size_t>(drawing.slot)] < 0) return;
  Entry& entry = entries_[static_cast<size_t>(entry_of_slot_[static_cast<size_t>(drawing.slot)])];
  // Another sequence may have the slot by now.
  if (entry.in_flight == 0 || entry.known.size() != drawing.position) return;
  entry.known.push_back(token);
  --entry.in_flight;
}

}  // namespace baton::kernels::cuda
