#pragma once

#include "kernels/cuda/cta/sample_data.h"
#include "kernels/cuda/cta/sample_math.h"
#include "kernels/cuda/cta/sample_survey.h"

// Where top-k, top-p and the top logprobs cut a row, without sorting it: histograms of counts or of
// integer masses shorten the range of logits until one value is left, then ids break its ties. Sums
// of integers do not depend on their order, so the cut is that of the reference, ties included.
namespace baton::kernels::cuda {

constexpr int kBins = 2 * kDrawThreads;
constexpr int kStretchThreads = 32;  // threads that sum one stretch of a row together
constexpr int kStretches = kDrawThreads / kStretchThreads;

struct Found {
  double total;   // of all values
  double before;  // of the values before `id`
  double after;
  int32_t id;  // -1: none
};

struct DrawShared {
  uint32_t bins_low[kBins];  // 64-bit sums as two native 32-bit atomics
  uint32_t bins_high[kBins];
  union {
    double sums[2][kDrawThreads];
    uint64_t masses[2][kDrawThreads];
    Ranked best[kDrawThreads];
    float weights[kDrawThreads];
  };
  double stretch_before[kStretches];
  double target;
  Found found;
  int32_t stretch;
  int32_t owner[kDrawThreads];
  uint64_t bin_before;
  uint64_t bin_value;
  int32_t bin;
  uint32_t collected;
  int32_t flag;
};

// A row as one draw sees it. An id is kept when (logit descending, id ascending) puts it at or
// before the cut.
struct RowView {
  const float* logits = nullptr;
  int32_t vocab = 0;
  float highest = 0;
  float temperature = 1;
  float min_p = 0;
  uint32_t cut_key = 0;
  int32_t cut_id = kLastId;

  BATON_HD bool Keeps(uint32_t key, int32_t id) const {
    return key > cut_key || (key == cut_key && id <= cut_id);
  }
  BATON_HD float RawWeight(float x) const { return Exp(DivRn(SubRn(x, highest), temperature)); }
  BATON_HD float Weight(int32_t id) const {
    const float x = logits[id];
    if (!Keeps(OrderedKey(x), id)) return 0.0f;
    const float weight = RawWeight(x);
    return weight < min_p ? 0.0f : weight;
  }
};

struct TakeLower {
  BATON_HD int32_t operator()(int32_t a, int32_t b) const { return b < a ? b : a; }
};

// Finds which of the 32 stretches of the row holds the first id whose running sum exceeds the
// target. Leaves it in `shared` with total and target; the stretch is -1 when the sum never gets
// there.
template <typename Cta, typename Value, typename Target>
BATON_HD void FindStretch(Cta& cta, int32_t vocab, int32_t length, Value value, Target target,
                          DrawShared& shared) {
  double* const sums = shared.sums[0];
  cta.ForEach([&](int t) {
    const int32_t begin = t / kStretchThreads * length;
    const int32_t end = begin + length < vocab ? begin + length : vocab;
    double sum = 0;
    for (int32_t id = begin + t % kStretchThreads; id < end; id += kStretchThreads) {
      sum += value(id);
    }
    sums[t] = sum;
  });
  for (int half = kStretchThreads / 2; half > 0; half /= 2) {
    cta.ForEach([&](int t) {
      if (t % kStretchThreads < half) sums[t] += sums[t + half];
    });
  }
  cta.Single([&] {
    double running = 0;
    for (int i = 0; i < kStretches; ++i) {
      shared.stretch_before[i] = running;
      running += sums[i * kStretchThreads];
    }
    shared.found = Found{running, 0, 0, -1};
    shared.target = target(running);
    shared.stretch = -1;
    for (int i = kStretches - 1; i >= 0; --i) {
      if (shared.stretch_before[i] + sums[i * kStretchThreads] > shared.target) shared.stretch = i;
    }
  });
}

// Finds the first id whose running sum of value(id) exceeds target(total). The order in which
// values are added depends on `vocab` alone. It is not that of a plain loop, so sums of fractions
// differ from a plain loop's by rounding.
template <typename Cta, typename Value, typename Target>
BATON_HD Found FindRunning(Cta& cta, int32_t vocab, Value value, Target target,
                           DrawShared& shared) {
  const int32_t length = (vocab + kStretches - 1) / kStretches;
  FindStretch(cta, vocab, length, value, target, shared);
  const int32_t stretch = cta.Read(shared.stretch);
  if (stretch < 0) return cta.Read(shared.found);
  const double base = cta.Read(shared.stretch_before[stretch]);
  const double limit = cta.Read(shared.target);
  const int32_t begin = stretch * length;
  const int32_t end = begin + length < vocab ? begin + length : vocab;
  const int32_t share = (length + kDrawThreads - 1) / kDrawThreads;
  cta.ForEach([&](int t) {
    double sum = 0;
    for (int32_t id = begin + t * share; id < end && id < begin + (t + 1) * share; ++id) {
      sum += value(id);
    }
    shared.sums[0][t] = sum;
  });
  const double* const scan = InclusiveScan(cta, shared.sums[0], shared.sums[1], kDrawThreads);
  cta.ForEach([&](int t) { shared.owner[t] = base + scan[t] > limit ? t : kLastId; });
  const int32_t owner = TreeReduce(cta, shared.owner, kDrawThreads, TakeLower());
  cta.ForEach([&](int t) {
    if (t != owner) return;
    double running = t > 0 ? base + scan[t - 1] : base;
    for (int32_t id = begin + t * share; id < end && id < begin + (t + 1) * share; ++id) {
      const double before = running;
      running += value(id);
      if (running > limit) {
        shared.found = Found{shared.found.total, before, running, id};
        break;
      }
    }
  });
  return cta.Read(shared.found);
}

// Divides the logits below the highest into bins of equal width, from high to low. The last bin
// holds everything further down.
struct LinearBins {
  float highest;
  float scale;  // bins per unit

  BATON_HD int32_t operator()(float x) const {
    const float distance = MulRn(SubRn(highest, x), scale);
    return distance < static_cast<float>(kBins - 1) ? static_cast<int32_t>(distance) : kBins - 1;
  }
  // Keys that surely enclose those of `bin`, since rounding is monotone and moves a logit by far
  // less than one bin.
  BATON_HD uint32_t LowKey(int32_t bin) const {
    if (bin == kBins - 1) return OrderedKey(kMasked);
    return OrderedKey(SubRn(highest, DivRn(static_cast<float>(bin + 2), scale)));
  }
  BATON_HD uint32_t HighKey(int32_t bin) const {
    if (bin == 0) return OrderedKey(highest);
    const float x = SubRn(highest, DivRn(static_cast<float>(bin - 1), scale));
    return OrderedKey(x < highest ? x : highest);
  }
};

// Adds value(x) to the bin bin_of(x, key) of every id that the view keeps, unless the bin is -1.
template <typename Cta, typename BinOf, typename Value>
BATON_HD void Histogram(Cta& cta, const RowView& view, BinOf bin_of, Value value,
                        DrawShared& shared) {
  cta.ForEach([&](int t) {
    for (int i = t; i < kBins; i += kDrawThreads) shared.bins_low[i] = shared.bins_high[i] = 0;
  });
  cta.ForEach([&](int t) {
    for (int32_t id = t; id < view.vocab; id += kDrawThreads) {
      const float x = view.logits[id];
      const uint32_t key = OrderedKey(x);
      const int32_t bin = bin_of(x, key);
      if (bin < 0 || !view.Keeps(key, id)) continue;
      const uint64_t add = value(x);
      if (add == 0) continue;
      const uint32_t low = static_cast<uint32_t>(add);
      const uint32_t before = AtomicAdd(&shared.bins_low[bin], low);
      const uint32_t carry = before + low < low ? 1 : 0;
      const uint32_t high = static_cast<uint32_t>(add >> 32) + carry;
      if (high != 0) AtomicAdd(&shared.bins_high[bin], high);
    }
  });
}

BATON_HD uint64_t BinValue(const DrawShared& shared, int bin) {
  return static_cast<uint64_t>(shared.bins_high[bin]) << 32 | shared.bins_low[bin];
}

// Finds the bin in which `before` plus the values of the bins so far reaches `needed`, or, where
// top_p < 1, that share of their total. Leaves bin (-1: never reached), bin_before and bin_value in
// `shared` and returns what was needed.
template <typename Cta>
BATON_HD double FindBin(Cta& cta, uint64_t before, double needed, float top_p, DrawShared& shared) {
  cta.ForEach([&](int t) {
    shared.masses[0][t] = BinValue(shared, 2 * t) + BinValue(shared, 2 * t + 1);
    if (t == 0) shared.bin = -1;
  });
  const uint64_t* const scan = InclusiveScan(cta, shared.masses[0], shared.masses[1], kDrawThreads);
  const uint64_t total = cta.Read(scan[kDrawThreads - 1]);
  if (top_p < 1) needed = MulRn(static_cast<double>(top_p), static_cast<double>(total));
  cta.ForEach([&](int t) {
    uint64_t reached = before + (t > 0 ? scan[t - 1] : 0);
    if (static_cast<double>(reached) >= needed) return;
    if (static_cast<double>(before + scan[t]) < needed) return;
    int bin = 2 * t;
    if (static_cast<double>(reached + BinValue(shared, bin)) < needed) {
      reached += BinValue(shared, bin++);
    }
    shared.bin = bin;
    shared.bin_before = reached;
    shared.bin_value = BinValue(shared, bin);
  });
  return needed;
}

// How many of `ties` equal ids, each adding `each`, are taken until `before` has grown to `needed`.
BATON_HD uint64_t TiesNeeded(uint64_t before, uint64_t each, uint64_t ties, double needed) {
  uint64_t low = 1;
  uint64_t high = ties;
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    if (static_cast<double>(before + middle * each) >= needed) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Cuts the view at `key`, after the first `wanted` of the `ties` ids that have it.
template <typename Cta>
BATON_HD void CutAt(Cta& cta, uint32_t key, uint64_t wanted, uint64_t ties, RowView& view,
                    DrawShared& shared) {
  int32_t last = key == view.cut_key ? view.cut_id : kLastId;
  if (wanted < ties) {
    const float* const logits = view.logits;
    const auto tied = [=](int32_t id) { return OrderedKey(logits[id]) == key ? 1.0 : 0.0; };
    const auto target = [=](double) { return static_cast<double>(wanted) - 0.5; };
    last = FindRunning(cta, view.vocab, tied, target, shared).id;
  }
  view.cut_key = key;
  view.cut_id = last;
}

// Tightens the cut of `view` to the ids whose values, taken in rank order, first reach `needed`, or
// the share top_p (< 1) of the values of all ids kept so far.
template <typename Cta, typename Value>
BATON_HD void TightenCut(Cta& cta, LinearBins bins, Value value, double needed, float top_p,
                         RowView& view, DrawShared& shared) {
  Histogram(
      cta, view, [=](float x, uint32_t) { return bins(x); }, value, shared);
  needed = FindBin(cta, 0, needed, top_p, shared);
  const int32_t chosen = cta.Read(shared.bin);
  if (chosen < 0) return;
  uint64_t before = cta.Read(shared.bin_before);
  uint32_t low = bins.LowKey(chosen);
  uint32_t high = bins.HighKey(chosen);
  for (;;) {
    int shift = 0;
    while ((high - low) >> shift >= static_cast<uint32_t>(kBins)) ++shift;
    const auto bin_of = [=](float x, uint32_t key) {
      if (key < low || key > high || bins(x) != chosen) return -1;
      return static_cast<int32_t>((high - key) >> shift);
    };
    Histogram(cta, view, bin_of, value, shared);
    FindBin(cta, before, needed, 1.0f, shared);
    const int32_t bin = cta.Read(shared.bin);
    if (bin < 0) return;
    before = cta.Read(shared.bin_before);
    high -= static_cast<uint32_t>(bin) << shift;
    if (shift == 0) break;
    const uint32_t width = (1u << shift) - 1;
    if (high - low > width) low = high - width;
  }
  const uint64_t each = value(FromOrderedKey(high));
  const uint64_t ties = cta.Read(shared.bin_value) / each;
  CutAt(cta, high, TiesNeeded(before, each, ties, needed), ties, view, shared);
}

// Cuts the view so that it keeps the `count` highest ids.
template <typename Cta>
BATON_HD void CutTopK(Cta& cta, int32_t count, RowView& view, DrawShared& shared) {
  if (count >= view.vocab) return;
  const LinearBins bins{view.highest, static_cast<float>(kBins - 1) / 32};
  TightenCut(
      cta, bins, [](float) { return uint64_t{1}; }, count, 1.0f, view, shared);
}

// Cuts the view so that it keeps the nucleus with the share top_p of what it kept before. Masses
// are zero from 28 temperatures below the highest logit on.
template <typename Cta>
BATON_HD void CutTopP(Cta& cta, float top_p, RowView& view, DrawShared& shared) {
  if (!(top_p < 1)) return;
  const float scale = DivRn(static_cast<float>(kBins - 1), MulRn(28.0f, view.temperature));
  const RowView weigh = view;
  TightenCut(
      cta, LinearBins{view.highest, scale},
      [=](float x) { return NucleusMassOf(weigh.RawWeight(x)); }, 0, top_p, view, shared);
}

}  // namespace baton::kernels::cuda
