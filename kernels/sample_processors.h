#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sampling.h"

namespace baton::kernels {

// Applies penalties, bias and masks to a row of logits: the part of sampling that touches few ids.
// The host backends share it, so that they process a row with the same arithmetic. It owns scratch
// that is reused from row to row, so each thread has one.
class SampleProcessors {
 public:
  // Returns the processed logits: `raw` itself when the row asks for nothing, else a copy in
  // scratch, valid until the next call. A masked id has -infinity. When the masks leave no id, they
  // do not count and all else does; when that leaves none either, the raw logits are returned: a
  // request cannot ask for no token at all.
  std::span<const float> Process(const SampleRow& row, std::span<const float> raw);

  // Returns the logits of the last Process with the row's EOS ids masked as well. A row with
  // `allowed` is never asked for that: where its grammar ends EOS has to be drawn.
  std::span<const float> MaskEos(const SampleRow& row, std::span<const float> raw);

 private:
  std::span<float> Writable(std::span<const float> raw);
  // Makes processed_ of `raw`, if the row asks for anything, with or without `banned_ids` and
  // `mask_stop_ids`.
  void Apply(const SampleRow& row, bool masks, std::span<const float> raw);
  void Penalise(const SampleRow& row, std::span<float> logits);
  void AddBias(const SampleRow& row, std::span<float> logits);
  void AddEosBias(const SampleRow& row, std::span<float> logits);

  std::vector<float> processed_;
  bool copied_ = false;
  std::vector<int32_t> counts_;  // [vocab], all zero between rows
  std::vector<int32_t> seen_;    // ids with a count
};

// Sets the logit of every id that is in range to -infinity.
void MaskIds(std::span<const int32_t> ids, std::span<float> logits);

// Whether ids are ascending, each once, as the sets of a row are. The functions below take such.
bool IsSet(std::span<const int32_t> ids);

// Sets the logit of every id outside `allowed`, a bitmap as SampleRow has it, to -infinity.
void KeepAllowed(std::span<const uint32_t> allowed, std::span<float> logits);

bool Contains(std::span<const int32_t> set, int32_t id);

// Calls `visit(id)` for each id of `set` inside [0, vocab).
template <typename Visit>
void ForEachInVocab(std::span<const int32_t> set, size_t vocab, Visit visit) {
  for (const int32_t id : set) {
    if (id >= 0 && static_cast<size_t>(id) < vocab) visit(id);
  }
}

}  // namespace baton::kernels
