#pragma once

#include "kernels/cuda/cta/sample_cut.h"

// The second of the two kernels of sampling: each block finishes one row. It computes the EOS
// signal, draws, draws again where EOS is masked, lists log-probabilities and updates the slot's
// state.
namespace baton::kernels::cuda {

struct RowStats {
  double log_total = 0;  // of exp(x - raw.logit), raw logits
  double weighted = 0;   // of the same, times (x - raw.logit), over the total
  double total = 0;
  int64_t before = 0;  // ids ranked before the best EOS id
  Ranked raw{};
  Ranked processed{};
  bool valid = false;
};

template <typename Cta>
BATON_HD RowStats CombineTiles(Cta& cta, const TilePartial* partials, int32_t tiles,
                               DrawShared& shared) {
  RowStats stats;
  const auto reduce_best = [&](auto of) {
    cta.ForEach([&](int t) {
      shared.best[t] = t < tiles ? of(partials[t]) : Ranked{kMasked, kNoId};
    });
    return TreeReduce(cta, shared.best, kDrawThreads, TakeBetter());
  };
  const auto reduce_sum = [&](auto of) {
    cta.ForEach([&](int t) { shared.sums[0][t] = t < tiles ? of(partials[t]) : 0.0; });
    return TreeReduce(cta, shared.sums[0], kDrawThreads, Add());
  };
  stats.raw = reduce_best([](const TilePartial& p) { return Ranked{p.raw_highest, p.raw_argmax}; });
  stats.processed = reduce_best([](const TilePartial& p) {
    return Ranked{p.processed_highest, p.processed_argmax};
  });
  const double invalid =
      reduce_sum([](const TilePartial& p) { return p.invalid != 0 ? 1.0 : 0.0; });
  stats.valid = invalid == 0 && stats.raw.logit > kMasked;
  if (!stats.valid) return stats;
  const double highest = stats.raw.logit;
  const auto scaled = [=](const TilePartial& p, double sum) {
    return p.raw_highest > kMasked ? MulRn(sum, exp(p.raw_highest - highest)) : 0.0;
  };
  stats.total = reduce_sum([=](const TilePartial& p) { return scaled(p, p.total); });
  stats.weighted = reduce_sum([=](const TilePartial& p) {
    const double down = p.raw_highest > kMasked ? p.raw_highest - highest : 0.0;
    return scaled(p, AddRn(p.weighted, MulRn(down, p.total)));
  });
  stats.before = static_cast<int64_t>(
      reduce_sum([](const TilePartial& p) { return static_cast<double>(p.before); }));
  stats.log_total = log(stats.total);
  return stats;
}

BATON_HD float LogprobOf(float logit, const RowStats& stats) {
  return static_cast<float>(static_cast<double>(logit) - stats.raw.logit - stats.log_total);
}

// Fills in the EOS signal, which is of the raw logits at temperature 1. One thread does it.
BATON_HD void FillSignal(const SampleParams& row, const int32_t* lists, const float* raw,
                         const RowStats& stats, SampleResult& result) {
  result.entropy = static_cast<float>(stats.log_total - stats.weighted / stats.total);
  result.top1_prob = static_cast<float>(1.0 / stats.total);
  const Ranked best = BestEos(row, lists, raw);
  if (best.id == kNoId) {
    result.eos_rank = 0;
    result.eos_logprob = BitsFloat(0x7fc00000u);  // NaN
    return;
  }
  result.eos_rank = static_cast<int32_t>(1 + stats.before);
  if (!(best.logit > kMasked)) {
    result.eos_logprob = kMasked;
    return;
  }
  const double top = best.logit;
  double sum = 0;
  for (int32_t i = 0; i < row.eos.count; ++i) sum += exp(raw[lists[row.eos.begin + i]] - top);
  const double logprob = top + log(sum) - static_cast<double>(stats.raw.logit) - stats.log_total;
  // Where EOS has nearly all of the mass, rounding can make more than all of it. NaN stays NaN.
  result.eos_logprob = static_cast<float>(logprob > 0 ? 0.0 : logprob);
}

BATON_HD bool Holds(const int32_t* lists, ListRange range, int32_t id) {
  for (int32_t i = 0; i < range.count; ++i) {
    if (lists[range.begin + i] == id) return true;
  }
  return false;
}

struct Drawn {
  int32_t token;
  double total;  // of the weights
};

// Draws by the running sum exactly as it is defined, with one thread.
template <typename Cta>
BATON_HD Drawn DrawInSequence(Cta& cta, const RowView& view, double coin, DrawShared& shared) {
  const auto walk = [&](double target) {
    cta.Single([&] {
      shared.found = Found{0, 0, 0, 0};
      shared.flag = 0;
    });
    for (int32_t base = 0; base < view.vocab && cta.Read(shared.flag) == 0; base += kDrawThreads) {
      cta.ForEach(
          [&](int t) { shared.weights[t] = base + t < view.vocab ? view.Weight(base + t) : 0.0f; });
      cta.Single([&] {
        double running = shared.found.total;
        for (int i = 0; i < kDrawThreads && shared.flag == 0; ++i) {
          const float weight = shared.weights[i];
          if (!(weight > 0)) continue;
          running = AddRn(running, static_cast<double>(weight));
          shared.found.id = base + i;
          if (running > target) shared.flag = 1;
        }
        shared.found.total = running;
      });
    }
    return cta.Read(shared.found);
  };
  const double total = walk(HUGE_VAL).total;
  return Drawn{walk(MulRn(coin, total)).id, total};
}

// Draws the first id in ascending order whose running sum exceeds coin x total. The sums that
// FindRunning adds up differ from the defined ones by at most `margin`. Where that could decide,
// the row is added up as defined, which happens about once in 10^9 draws for peaked rows and once
// in 10^5 for flat ones.
template <typename Cta>
BATON_HD Drawn TossCoin(Cta& cta, const RowView& view, double coin, DrawShared& shared) {
  const Found found = FindRunning(
      cta, view.vocab, [&](int32_t id) { return static_cast<double>(view.Weight(id)); },
      [=](double total) { return MulRn(coin, total); }, shared);
  const double target = MulRn(coin, found.total);
  const double margin = MulRn((view.vocab + 2) * 4.440892098500626e-16, found.total);  // 2^-51
  const bool certain = found.id >= 0 && found.after > target + margin &&
                       (found.before == 0 || found.before < target - margin);
  if (certain) return Drawn{found.id, found.total};
  return DrawInSequence(cta, view, coin, shared);
}

// The share of the weights that stands on the stop set, added in the order of the list.
template <typename Cta>
BATON_HD double StopMass(Cta& cta, const int32_t* lists, ListRange stop, const RowView& view,
                         double total, DrawShared& shared) {
  double mass = 0;
  for (int32_t base = 0; base < stop.count; base += kDrawThreads) {
    const int32_t count = stop.count - base < kDrawThreads ? stop.count - base : kDrawThreads;
    cta.ForEach([&](int t) {
      if (t < count) shared.weights[t] = view.Weight(lists[stop.begin + base + t]);
    });
    cta.Single([&] {
      shared.target = mass;
      for (int i = 0; i < count; ++i) shared.target += shared.weights[i] / total;
    });
    mass = cta.Read(shared.target);
  }
  return mass;
}

struct DrawOutcome {
  int32_t token;
  double stop_mass;
};

template <typename Cta>
BATON_HD DrawOutcome DrawOne(Cta& cta, const SampleParams& row, const int32_t* lists,
                             const float* logits, int32_t vocab, Ranked highest, uint32_t draw,
                             DrawShared& shared) {
  if (row.temperature == 0) {
    return DrawOutcome{highest.id, Holds(lists, row.stop, highest.id) ? 1.0 : 0.0};
  }
  RowView view;
  view.logits = logits;
  view.vocab = vocab;
  view.highest = highest.logit;
  view.temperature = row.temperature;
  if (row.top_k > 0) CutTopK(cta, row.top_k, view, shared);
  CutTopP(cta, row.top_p, view, shared);
  view.min_p = row.min_p;
  const Drawn drawn = TossCoin(cta, view, CoinOf(row.seed, row.position, draw), shared);
  return DrawOutcome{drawn.token, StopMass(cta, lists, row.stop, view, drawn.total, shared)};
}

template <typename Cta>
BATON_HD void TopLogprobs(Cta& cta, const SampleLaunch& launch, int32_t wanted, const float* raw,
                          const RowStats& stats, SampleTopLogprob* out, DrawShared& shared) {
  RowView view;
  view.logits = raw;
  view.vocab = launch.vocab;
  view.highest = stats.raw.logit;
  CutTopK(cta, wanted, view, shared);
  cta.Single([&] { shared.collected = 0; });
  cta.ForEach([&](int t) {
    for (int32_t id = t; id < launch.vocab; id += kDrawThreads) {
      if (!view.Keeps(OrderedKey(raw[id]), id)) continue;
      shared.best[AtomicAdd(&shared.collected, 1)] = Ranked{raw[id], id};
    }
  });
  const int count = static_cast<int>(cta.Read(shared.collected));
  cta.ForEach([&](int t) {
    if (t >= count) return;
    const Ranked own = shared.best[t];
    int rank = 0;
    for (int i = 0; i < count; ++i) {
      const Ranked other = shared.best[i];
      if (other.logit > own.logit || (other.logit == own.logit && other.id < own.id)) ++rank;
    }
    out[rank] = SampleTopLogprob{own.id, LogprobOf(own.logit, stats)};
  });
}

// Masks the EOS ids in `processed`, into which the raw logits are copied first when the processors
// had left nothing to draw. Returns the best id that is left; its logit is -infinity when none is.
template <typename Cta>
BATON_HD Ranked MaskEos(Cta& cta, const SampleParams& row, const int32_t* lists, const float* raw,
                        bool copy_raw, float* processed, int32_t vocab, DrawShared& shared) {
  if (copy_raw) {
    cta.ForEach([&](int t) {
      for (int32_t id = t; id < vocab; id += kDrawThreads) processed[id] = raw[id];
    });
  }
  cta.ForEach([&](int t) {
    for (int32_t i = t; i < row.eos.count; i += kDrawThreads) {
      processed[lists[row.eos.begin + i]] = kMasked;
    }
  });
  return HighestOf(cta, processed, 0, vocab, shared.best);
}

// Updates what the next step reads on the device: the slot's last token and its counts.
BATON_HD void UpdateState(const SampleLaunch& launch, const SampleParams& row, int32_t token) {
  if (row.slot >= 0) launch.last_tokens[row.slot] = token;
  if (row.counts >= 0 && row.adds_count != 0) {
    uint32_t& count = launch.counts[static_cast<int64_t>(row.counts) * launch.vocab + token];
    count = (count | 1) + 2;
  }
}

struct RowOutcome {
  int32_t token = 0;
  float prob_sampling = 0;
  bool natural_end = false;
};

template <typename Cta>
BATON_HD RowOutcome DrawRow(Cta& cta, const SampleLaunch& launch, const SampleParams& row,
                            const float* raw, float* processed, const RowStats& stats,
                            DrawShared& shared) {
  // When the masks leave no id they do not count, and when all else leaves none either, the raw
  // logits are drawn from.
  Ranked best = stats.processed;
  if (!(best.logit > kMasked) && NeedsProcessed(row)) {
    best =
        ProcessIds(cta, launch, row, raw, /*masks=*/false, processed, 0, launch.vocab, shared.best);
  }
  const bool all_masked = !(best.logit > kMasked);
  const bool untouched = all_masked || !NeedsProcessed(row);
  const float* logits = untouched ? raw : processed;
  Ranked highest = untouched ? stats.raw : best;
  RowOutcome outcome;
  for (uint32_t draw = 0;; ++draw) {
    const DrawOutcome drawn =
        DrawOne(cta, row, launch.lists, logits, launch.vocab, highest, draw, shared);
    outcome.token = drawn.token;
    if (draw == 1) return outcome;
    outcome.prob_sampling = static_cast<float>(drawn.stop_mass);
    if (row.redraw_eos == 0 || !Holds(launch.lists, row.eos, drawn.token)) return outcome;
    outcome.natural_end = true;
    highest = MaskEos(cta, row, launch.lists, raw, all_masked, processed, launch.vocab, shared);
    const bool none_left = !(highest.logit > kMasked);
    logits = none_left ? raw : processed;
    if (none_left) highest = stats.raw;
  }
}

template <typename Cta>
BATON_HD void FinishRow(Cta& cta, const SampleLaunch& launch, int32_t row_index,
                        DrawShared& shared) {
  const SampleParams& row = launch.params[row_index];
  if (row.active == 0) return;
  const int32_t tiles = NumTiles(launch.vocab);
  const RowStats stats =
      CombineTiles(cta, launch.partials + static_cast<int64_t>(row_index) * tiles, tiles, shared);
  SampleResult& result = launch.results[row_index];
  if (!stats.valid) {
    cta.Single([&] {
      result = SampleResult{};
      UpdateState(launch, row, 0);
    });
    return;
  }
  const float* const raw = launch.logits + row_index * launch.stride;
  float* const processed = launch.processed + static_cast<int64_t>(row_index) * launch.vocab;
  const RowOutcome outcome = DrawRow(cta, launch, row, raw, processed, stats, shared);
  const int32_t wanted = row.num_top_logprobs < launch.vocab ? row.num_top_logprobs : launch.vocab;
  if (wanted > 0) {
    TopLogprobs(cta, launch, wanted, raw, stats,
                launch.top_logprobs + static_cast<int64_t>(row_index) * launch.max_top_logprobs,
                shared);
  }
  cta.Single([&] {
    FillSignal(row, launch.lists, raw, stats, result);
    result.token = outcome.token;
    result.logprob = LogprobOf(raw[outcome.token], stats);
    result.eos_prob_sampling = outcome.prob_sampling;
    result.natural_end = outcome.natural_end ? 1 : 0;
    result.valid = 1;
    result.num_top_logprobs = wanted;
    UpdateState(launch, row, outcome.token);
  });
}

}  // namespace baton::kernels::cuda
