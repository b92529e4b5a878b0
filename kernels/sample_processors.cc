#include "kernels/sample_processors.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "common/base/check.h"

namespace baton::kernels {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

bool HasPenalty(const SampleRow& row) {
  return row.repetition_penalty != 1 || row.presence_penalty != 0 || row.frequency_penalty != 0;
}

bool HasMask(const SampleRow& row) {
  return (row.mask_stop_ids && !row.stop_ids.empty()) || !row.banned_ids.empty();
}

// An overflow to +infinity would make every weight NaN; NaN (0 * inf) counts as masked.
float Finite(float value) {
  if (value != value) return kMasked;
  return std::min(value, std::numeric_limits<float>::max());
}

bool AllMasked(std::span<const float> logits) {
  return std::all_of(logits.begin(), logits.end(), [](float x) { return x == kMasked; });
}

}  // namespace

bool Contains(std::span<const int32_t> set, int32_t id) {
  return std::ranges::binary_search(set, id);
}

bool IsSet(std::span<const int32_t> ids) {
  return std::ranges::adjacent_find(ids, std::greater_equal<>()) == ids.end();
}

void MaskIds(std::span<const int32_t> ids, std::span<float> logits) {
  for (const int32_t id : ids) {
    if (id >= 0 && static_cast<size_t>(id) < logits.size()) logits[id] = kMasked;
  }
}

void KeepAllowed(std::span<const uint32_t> allowed, std::span<float> logits) {
  constexpr size_t kBits = 32;
  const size_t known = std::min(logits.size(), allowed.size() * kBits);
  for (size_t begin = 0; begin < known; begin += kBits) {
    const uint32_t word = allowed[begin / kBits];
    const auto some = logits.subspan(begin, std::min(kBits, known - begin));
    if (word == 0) {
      std::ranges::fill(some, kMasked);
    } else if (word != ~uint32_t{0}) {
      for (size_t bit = 0; bit < some.size(); ++bit) {
        some[bit] = (word >> bit & 1) != 0 ? some[bit] : kMasked;  // without a branch
      }
    }
  }
  std::ranges::fill(logits.subspan(known), kMasked);
}

std::span<float> SampleProcessors::Writable(std::span<const float> raw) {
  if (!copied_) {
    processed_.assign(raw.begin(), raw.end());
    copied_ = true;
  }
  return processed_;
}

void SampleProcessors::Penalise(const SampleRow& row, std::span<float> logits) {
  counts_.resize(logits.size(), 0);
  const auto in_range = [&](int32_t id) {
    return id >= 0 && static_cast<size_t>(id) < logits.size();
  };
  // Bit 0 says whether the id occurs at all, the other bits count how often it occurs in the
  // output.
  for (const int32_t id : row.prompt) {
    if (!in_range(id)) continue;
    if (counts_[id] == 0) seen_.push_back(id);
    counts_[id] |= 1;
  }
  const auto count_output = [&](int32_t id) {
    if (!in_range(id)) return;
    if (counts_[id] == 0) seen_.push_back(id);
    counts_[id] = (counts_[id] | 1) + 2;
  };
  for (const int32_t id : row.output) count_output(id);
  if (row.pending_output) count_output(row.pending_id);
  for (const int32_t id : row.given) count_output(id);
  for (const int32_t id : seen_) {
    const int32_t count = counts_[id] >> 1;
    counts_[id] = 0;
    float x = logits[id];
    x = x < 0 ? x * row.repetition_penalty : x / row.repetition_penalty;
    if (count > 0) {
      x -= row.frequency_penalty * static_cast<float>(count);
      x -= row.presence_penalty;
    }
    logits[id] = Finite(x);
  }
  seen_.clear();
}

void SampleProcessors::AddBias(const SampleRow& row, std::span<float> logits) {
  for (const auto& [id, bias] : row.logit_bias) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size()) continue;
    logits[id] = Finite(logits[id] + bias);
  }
}

void SampleProcessors::AddEosBias(const SampleRow& row, std::span<float> logits) {
  ForEachInVocab(row.eos_ids, logits.size(),
                 [&](int32_t id) { logits[id] = Finite(logits[id] + row.eos_bias); });
}

void SampleProcessors::Apply(const SampleRow& row, bool masks, std::span<const float> raw) {
  copied_ = false;
  if (HasPenalty(row)) Penalise(row, Writable(raw));
  if (!row.logit_bias.empty()) AddBias(row, Writable(raw));
  if (row.eos_bias != 0) AddEosBias(row, Writable(raw));
  if (masks) {
    const std::span<float> logits = Writable(raw);
    MaskIds(row.banned_ids, logits);
    if (row.mask_stop_ids) MaskIds(row.stop_ids, logits);
  }
  if (!row.allowed.empty()) KeepAllowed(row.allowed, Writable(raw));
}

std::span<const float> SampleProcessors::Process(const SampleRow& row, std::span<const float> raw) {
  BATON_CHECK(!row.pending_output || row.pending_id >= 0)
      << "the last id of slot " << row.slot << " was not filled in";
  Apply(row, HasMask(row), raw);
  if (HasMask(row) && AllMasked(processed_)) Apply(row, false, raw);
  if (copied_ && AllMasked(processed_)) copied_ = false;
  return copied_ ? std::span<const float>(processed_) : raw;
}

std::span<const float> SampleProcessors::MaskEos(const SampleRow& row, std::span<const float> raw) {
  const std::span<float> logits = Writable(raw);
  MaskIds(row.eos_ids, logits);
  return AllMasked(logits) ? raw : std::span<const float>(logits);
}

}  // namespace baton::kernels
