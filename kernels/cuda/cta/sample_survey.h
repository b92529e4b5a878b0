#pragma once

#include "kernels/cuda/cta/sample_data.h"
#include "kernels/cuda/cta/sample_math.h"

// The first of the two kernels of sampling: each block looks at one tile of one row. It applies the
// processors and leaves the sums over the tile that the EOS signal and the draw need. The order of
// every sum depends on the ids alone.
namespace baton::kernels::cuda {

// A logit and its id; the better one is higher, ties go to the lower id.
struct Ranked {
  float logit;
  int32_t id;
};
BATON_HD Ranked Better(Ranked a, Ranked b) {
  return b.logit > a.logit || (b.logit == a.logit && b.id < a.id) ? b : a;
}
constexpr int kNoId = 0x7fffffff;

struct SurveyShared {
  Ranked best[kSurveyThreads];
  double total[kSurveyThreads];
  double weighted[kSurveyThreads];
  int32_t before[kSurveyThreads];
  int32_t invalid[kSurveyThreads];
};

struct Add {
  template <typename T>
  BATON_HD T operator()(T a, T b) const {
    return a + b;
  }
};
struct Or {
  BATON_HD int32_t operator()(int32_t a, int32_t b) const { return a | b; }
};
struct TakeBetter {
  BATON_HD Ranked operator()(Ranked a, Ranked b) const { return Better(a, b); }
};

BATON_HD bool NeedsProcessed(const SampleParams& row) {
  return row.counts >= 0 || row.patches.count > 0 || row.allowed.count > 0 || row.redraw_eos != 0;
}

// The best EOS id by raw logit; id kNoId without one.
BATON_HD Ranked BestEos(const SampleParams& row, const int32_t* lists, const float* raw) {
  Ranked best{kMasked, kNoId};
  for (int32_t i = 0; i < row.eos.count; ++i) {
    const int32_t id = lists[row.eos.begin + i];
    best = Better(best, Ranked{raw[id], id});
  }
  return best;
}

// The first pair of `patches` whose id is at least `id`.
BATON_HD int32_t LowerPatch(const int32_t* patches, int32_t count, int32_t id) {
  int32_t low = 0;
  int32_t high = count;
  while (low < high) {
    const int32_t middle = (low + high) / 2;
    if (patches[2 * middle] < id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Adds the biases of the pairs [first, last) to the logits of their ids; those of -infinity, which
// mask, only with `masks`. The pairs of one id are added by one thread, in their order.
template <typename Cta>
BATON_HD void ApplyPatches(Cta& cta, const int32_t* patches, int32_t first, int32_t last,
                           bool masks, float* processed) {
  cta.ForEach([&](int t) {
    for (int32_t i = first + t; i < last; i += cta.threads()) {
      const int32_t id = patches[2 * i];
      if (i > first && patches[2 * (i - 1)] == id) continue;
      float x = processed[id];
      for (int32_t j = i; j < last && patches[2 * j] == id; ++j) {
        const float bias = BitsFloat(static_cast<uint32_t>(patches[2 * j + 1]));
        if (masks || bias > kMasked) x = Finite(AddRn(x, bias));
      }
      processed[id] = x;
    }
  });
}

BATON_HD bool IsAllowed(const int32_t* lists, ListRange allowed, int32_t id) {
  const int32_t word = id / 32;
  return word < allowed.count &&
         (static_cast<uint32_t>(lists[allowed.begin + word]) >> (id % 32) & 1u) != 0;
}

// Masks the ids of [begin, end) that the row's guide does not allow.
template <typename Cta>
BATON_HD void KeepAllowed(Cta& cta, const SampleParams& row, const int32_t* lists, int32_t begin,
                          int32_t end, float* processed) {
  cta.ForEach([&](int t) {
    for (int32_t id = begin + t; id < end; id += cta.threads()) {
      if (!IsAllowed(lists, row.allowed, id)) processed[id] = kMasked;
    }
  });
}

// The highest of values[begin, end) and its id.
template <typename Cta>
BATON_HD Ranked HighestOf(Cta& cta, const float* values, int32_t begin, int32_t end,
                          Ranked* scratch) {
  cta.ForEach([&](int t) {
    Ranked best{kMasked, kNoId};
    for (int32_t id = begin + t; id < end; id += cta.threads()) {
      best = Better(best, Ranked{values[id], id});
    }
    scratch[t] = best;
  });
  return TreeReduce(cta, scratch, cta.threads(), TakeBetter());
}

template <typename Cta>
BATON_HD void SumTile(Cta& cta, const float* raw, int32_t begin, int32_t end, float highest,
                      Ranked eos, SurveyShared& shared) {
  cta.ForEach([&](int t) {
    double total = 0;
    double weighted = 0;
    int32_t before = 0;
    for (int32_t id = begin + t; id < end; id += cta.threads()) {
      const float x = raw[id];
      const float shifted = SubRn(x, highest);
      const float weight = highest > kMasked ? Exp(shifted) : 0.0f;
      total += weight;
      if (weight > 0) weighted += MulRn(static_cast<double>(weight), static_cast<double>(shifted));
      if (eos.id != kNoId && (x > eos.logit || (x == eos.logit && id < eos.id))) ++before;
    }
    shared.total[t] = total;
    shared.weighted[t] = weighted;
    shared.before[t] = before;
  });
}

// Penalises the given ids of the tile anew, as often as they were sampled and are given.
template <typename Cta>
BATON_HD void PenaliseGiven(Cta& cta, const SampleParams& row, const int32_t* given,
                            const uint32_t* counts, const float* raw, float* processed,
                            int32_t begin, int32_t end) {
  cta.ForEach([&](int t) {
    for (int32_t i = t; i < row.given.count; i += cta.threads()) {
      const int32_t id = given[i];
      if (id < begin || id >= end) continue;
      uint32_t times = 0;
      bool first = true;  // who has the id's first place writes it
      for (int32_t j = 0; j < row.given.count; ++j) {
        if (given[j] != id) continue;
        ++times;
        first = first && j >= i;
      }
      if (!first) continue;
      processed[id] = Penalised(raw[id], (counts[id] | 1) + 2 * times, row.repetition_penalty,
                                row.presence_penalty, row.frequency_penalty);
    }
  });
}

// Writes the processed logits of [begin, end) and finds the highest. Without `masks` those of the
// patches do not count. `best` has room for each thread.
template <typename Cta>
BATON_HD Ranked ProcessIds(Cta& cta, const SampleLaunch& launch, const SampleParams& row,
                           const float* raw, bool masks, float* processed, int32_t begin,
                           int32_t end, Ranked* best) {
  const uint32_t* const counts =
      row.counts >= 0 ? launch.counts + static_cast<int64_t>(row.counts) * launch.vocab : nullptr;
  cta.ForEach([&](int t) {
    for (int32_t id = begin + t; id < end; id += cta.threads()) {
      const float x = raw[id];
      processed[id] = counts == nullptr ? x
                                        : Penalised(x, counts[id], row.repetition_penalty,
                                                    row.presence_penalty, row.frequency_penalty);
    }
  });
  if (counts != nullptr && row.given.count > 0) {
    PenaliseGiven(cta, row, launch.lists + row.given.begin, counts, raw, processed, begin, end);
  }
  if (row.patches.count > 0) {
    const int32_t* const patches = launch.lists + row.patches.begin;
    const int32_t first = LowerPatch(patches, row.patches.count, begin);
    const int32_t last = LowerPatch(patches, row.patches.count, end);
    ApplyPatches(cta, patches, first, last, masks, processed);
  }
  if (row.allowed.count > 0) KeepAllowed(cta, row, launch.lists, begin, end, processed);
  return HighestOf(cta, processed, begin, end, best);
}

template <typename Cta>
BATON_HD void SurveyTile(Cta& cta, const SampleLaunch& launch, int32_t row_index, int32_t tile,
                         SurveyShared& shared) {
  const SampleParams& row = launch.params[row_index];
  if (row.active == 0) return;
  const float* const raw = launch.logits + row_index * launch.stride;
  const int32_t begin = tile * kTileIds;
  const int32_t end = begin + kTileIds < launch.vocab ? begin + kTileIds : launch.vocab;

  cta.ForEach([&](int t) {
    int32_t invalid = 0;
    for (int32_t id = begin + t; id < end; id += cta.threads()) {
      invalid |= IsNan(raw[id]) || raw[id] > kMaxFloat ? 1 : 0;
    }
    shared.invalid[t] = invalid;
  });
  const int32_t invalid = TreeReduce(cta, shared.invalid, cta.threads(), Or());
  const Ranked highest = HighestOf(cta, raw, begin, end, shared.best);
  SumTile(cta, raw, begin, end, highest.logit, BestEos(row, launch.lists, raw), shared);
  const double total = TreeReduce(cta, shared.total, cta.threads(), Add());
  const double weighted = TreeReduce(cta, shared.weighted, cta.threads(), Add());
  const int32_t before = TreeReduce(cta, shared.before, cta.threads(), Add());
  Ranked processed = highest;
  if (NeedsProcessed(row)) {
    float* const out = launch.processed + static_cast<int64_t>(row_index) * launch.vocab;
    processed = ProcessIds(cta, launch, row, raw, /*masks=*/true, out, begin, end, shared.best);
  }
  cta.Single([&] {
    TilePartial& partial =
        launch.partials[static_cast<int64_t>(row_index) * NumTiles(launch.vocab) + tile];
    partial.total = total;
    partial.weighted = weighted;
    partial.before = before;
    partial.raw_highest = highest.logit;
    partial.raw_argmax = highest.id;
    partial.processed_highest = processed.logit;
    partial.processed_argmax = processed.id;
    partial.invalid = invalid;
  });
}

}  // namespace baton::kernels::cuda
