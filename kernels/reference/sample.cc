#include "kernels/reference/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "common/base/philox.h"
#include "kernels/exp_f32.h"
#include "kernels/sample_weights.h"

namespace baton::kernels::reference {
namespace {

struct RawStats {
  double highest = 0;
  double log_total = 0;  // of exp(x - highest)
};

bool IsDistribution(std::span<const float> raw) {
  bool any = false;
  for (const float x : raw) {
    if (std::isnan(x) || x == std::numeric_limits<float>::infinity()) return false;
    any |= std::isfinite(x);
  }
  return any;
}

// Sorts ids by (logit descending, id ascending).
std::vector<int32_t> Ranked(std::span<const float> logits) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  return ids;
}

RawStats FillSignal(const SampleRow& row, std::span<const float> raw, EosSignal& signal) {
  RawStats stats;
  stats.highest = *std::max_element(raw.begin(), raw.end());
  double total = 0;
  double weighted = 0;
  for (const float x : raw) {
    const double shifted = x - stats.highest;
    const double weight = std::exp(shifted);
    total += weight;
    if (weight > 0) weighted += weight * shifted;
  }
  stats.log_total = std::log(total);
  signal.entropy = static_cast<float>(stats.log_total - weighted / total);
  signal.top1_prob = static_cast<float>(1.0 / total);
  FillEosLogprob(row.eos_ids, raw, stats.highest, stats.log_total, signal);
  if (signal.eos_rank != 0) {
    const int32_t best = BestId(row.eos_ids, raw);
    signal.eos_rank = 1;
    for (size_t id = 0; id < raw.size(); ++id) {
      const bool tied_before = raw[id] == raw[best] && static_cast<int32_t>(id) < best;
      if (raw[id] > raw[best] || tied_before) ++signal.eos_rank;
    }
  }
  return stats;
}

// The weights of the ids that may be drawn, after temperature, top-k, top-p and min-p; 0 for the
// others.
std::vector<float> Weights(const SampleRow& row, std::span<const float> logits) {
  const float highest = *std::max_element(logits.begin(), logits.end());
  std::vector<float> weights(logits.size());
  for (size_t id = 0; id < logits.size(); ++id) {
    weights[id] = ExpF32((logits[id] - highest) / row.temperature);
  }
  const std::vector<int32_t> ranked = Ranked(logits);
  size_t kept = ranked.size();
  if (row.top_k > 0) kept = std::min(kept, static_cast<size_t>(row.top_k));
  if (row.top_p < 1) {
    uint64_t total = 0;
    for (size_t i = 0; i < kept; ++i) total += NucleusMass(weights[ranked[i]]);
    const double needed = NucleusNeeded(row.top_p, total);
    uint64_t before = 0;
    size_t i = 0;
    for (; i < kept && (i == 0 || static_cast<double>(before) < needed); ++i) {
      before += NucleusMass(weights[ranked[i]]);
    }
    kept = i;
  }
  for (size_t i = kept; i < ranked.size(); ++i) weights[ranked[i]] = 0;
  for (float& weight : weights) {
    if (weight < row.min_p) weight = 0;
  }
  return weights;
}

struct Draw {
  int32_t token = 0;
  double stop_mass = 0;
};

Draw DrawOne(const SampleRow& row, std::span<const float> logits, uint32_t draw) {
  Draw result;
  if (row.temperature == 0) {
    result.token =
        static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    result.stop_mass = Contains(row.stop_ids, result.token) ? 1 : 0;
    return result;
  }
  const std::vector<float> weights = Weights(row, logits);
  double total = 0;
  for (const float weight : weights) total += weight;
  const double target = SampleCoin(row, draw) * total;
  double running = 0;
  for (size_t id = 0; id < weights.size(); ++id) {
    running += weights[id];
    if (weights[id] > 0) result.token = static_cast<int32_t>(id);
    if (running > target) break;
  }
  ForEachInVocab(row.stop_ids, logits.size(),
                 [&](int32_t id) { result.stop_mass += weights[id] / total; });
  return result;
}

}  // namespace

void SampleRowInto(const SampleRow& row, std::span<const float> raw, SampleProcessors& processors,
                   SampledToken& result) {
  result = SampledToken();
  result.valid = IsDistribution(raw);
  if (!result.valid) return;
  const RawStats stats = FillSignal(row, raw, result.eos);
  Draw draw = DrawOne(row, processors.Process(row, raw), 0);
  result.eos.eos_prob_sampling = static_cast<float>(draw.stop_mass);
  if (row.redraw_eos && Contains(row.eos_ids, draw.token)) {
    result.natural_end = true;
    draw = DrawOne(row, processors.MaskEos(row, raw), 1);
  }
  result.token = draw.token;
  const auto logprob = [&](int32_t id) {
    return static_cast<float>(raw[id] - stats.highest - stats.log_total);
  };
  result.logprob = logprob(draw.token);
  if (row.num_top_logprobs > 0) {
    const std::vector<int32_t> ranked = Ranked(raw);
    const size_t count = std::min(ranked.size(), static_cast<size_t>(row.num_top_logprobs));
    for (size_t i = 0; i < count; ++i) {
      result.top_logprobs.push_back({ranked[i], logprob(ranked[i])});
    }
  }
}

}  // namespace baton::kernels::reference
