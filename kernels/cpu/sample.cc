#include "kernels/cpu/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/sample_weights.h"

namespace baton::kernels::cpu {
namespace {

// So few ids are sorted, in the time of one more reading of the row.
constexpr int64_t kFewIds = 512;
// Each reading leaves a quarter of the range of logits. A row whose logits lie too close together
// for these many is sorted where they do.
constexpr int kMostReadings = 24;
// The first reading looks no further below the highest logit: at usual temperatures nothing there
// weighs anything.
constexpr float kWidestRange = 64;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr Cut kAll = {-kInfinity, std::numeric_limits<int32_t>::max()};  // drops nothing

// A range [from, to) of logits which has the last id that is kept.
struct Bracket {
  float from = -kInfinity;
  float to = 0;
  uint64_t above = 0;  // how much is kept of what lies at `to` and higher
  int64_t ids = 0;     // how many lie in it
  bool operator==(const Bracket&) const = default;
};

// Its lowest value, and three that divide it.
void Divide(const Bracket& bracket, float low, float (&at)[kTails]) {
  at[0] = bracket.from;
  for (int i = 1; i < kTails; ++i) {
    const float part = static_cast<float>(i) / static_cast<float>(kTails);
    // A difference might overflow where both ends do not.
    at[i] = std::min(low * (1 - part) + bracket.to * part, bracket.to);
  }
}

// The first time, of a whole row: all of it, all that is not masked out, and two values among that.
void DivideRow(const LogitRange& range, float (&at)[kTails]) {
  at[0] = -kInfinity;
  at[1] = std::max(range.lowest, range.highest - kWidestRange);
  at[2] = at[1] * 0.5f + range.highest * 0.5f;
  at[3] = at[1] * 0.2f + range.highest * 0.8f;
  // A rounding never lifts them above the highest, so that whoever needs nothing keeps that.
  for (float& value : at) value = std::min(value, range.highest);
}

// The part of `bracket`, divided at `at`, at whose lower end as much is kept as is needed.
Bracket PartThatReaches(double needed, const Bracket& bracket, const float (&at)[kTails],
                        const Tails& tails, bool by_count) {
  const auto kept = [&](int i) {
    return bracket.above + (by_count ? static_cast<uint64_t>(tails.count[i]) : tails.mass[i]);
  };
  int last = kTails - 1;
  while (last > 0 && static_cast<double>(kept(last)) < needed) --last;
  Bracket part{
      .from = at[last], .to = bracket.to, .above = bracket.above, .ids = tails.count[last]};
  if (last + 1 < kTails) {
    part.to = at[last + 1];
    part.above = kept(last + 1);
    part.ids -= tails.count[last + 1];
  }
  return part;
}

}  // namespace

// Finds the last id that is kept when ids are taken in the order of their rank until there are
// `count` of them, or until they hold the share `top_p` of the nucleus mass: counts and masses of
// all that lies above a few values narrow down where it is, until so few ids are left that they are
// sorted.
Cut RowSampler::FindCut(std::span<const float> logits, const LogitRange& range,
                        const Wanted& wanted) {
  const bool by_count = wanted.count > 0;
  const std::span<const float> weights = by_count ? std::span<const float>() : weights_;
  Bracket bracket{.to = std::nextafter(range.highest, kInfinity),
                  .ids = static_cast<int64_t>(logits.size())};
  if (by_count && wanted.count >= range.finite) return kAll;
  double needed = static_cast<double>(wanted.count);
  for (int reading = 0; reading == 0 || (bracket.ids > kFewIds && reading < kMostReadings);
       ++reading) {
    float at[kTails];
    if (reading == 0) {
      DivideRow(range, at);
    } else {
      Divide(bracket, std::max(bracket.from, range.lowest), at);
    }
    const Tails tails = ops_.tails(logits, weights, at, bracket.to);
    if (reading == 0 && !by_count) {
      // The first in rank is always kept.
      needed = std::max(NucleusNeeded(wanted.top_p, tails.mass[0]), 1.0);
    }
    const Bracket part = PartThatReaches(needed, bracket, at, tails, by_count);
    const bool divided = part != bracket;  // false where its logits are equal
    bracket = part;
    if (!divided) break;
  }
  Gather(logits, bracket.from, bracket.to, bracket.ids);
  uint64_t before = bracket.above;
  for (const Candidate& candidate : candidates_) {
    before += by_count ? 1 : NucleusMass(weights_[candidate.id]);
    if (static_cast<double>(before) >= needed) return {candidate.logit, candidate.id};
  }
  return kAll;
}

// The `count` ids whose logits are in [from, to) become the candidates, in the order of their rank.
void RowSampler::Gather(std::span<const float> logits, float from, float to, int64_t count) {
  ids_.resize(static_cast<size_t>(count) + kGatherRoom);
  ids_.resize(ops_.gather(logits, from, to, ids_));
  candidates_.clear();
  for (const int32_t id : ids_) candidates_.push_back({logits[id], id});
  // Ids are in ascending order already, so nothing has to be sorted where all logits are equal.
  const bool flat = std::all_of(candidates_.begin(), candidates_.end(), [&](const Candidate& c) {
    return c.logit == candidates_.front().logit;
  });
  if (flat) return;
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  });
}

// Returns false when top-k and top-p drop nothing.
bool RowSampler::FindTopCuts(const SampleRow& row, std::span<const float> logits,
                             const LogitRange& range, Cut* cut) {
  bool found = false;
  if (row.top_k > 0 && static_cast<size_t>(row.top_k) < logits.size()) {
    *cut = FindCut(logits, range, {.count = row.top_k});
    found = true;
  }
  if (row.top_p < 1) {
    if (found) ops_.drop(logits, cut, 0, weights_);  // what weighs nothing adds nothing
    *cut = FindCut(logits, range, {.top_p = row.top_p});
    found = true;
  }
  return found;
}

// Draws the first id whose running sum exceeds coin x total. That is a sum in ascending order, one
// addition after the other. Vectors add in another order, which differs from it by rounding only:
// they tell where to look, and whether the draw is so near to the border of an id that rounding
// might decide.
int32_t RowSampler::TossCoin(const SampleRow& row, uint32_t draw, double* total) {
  const double coin = SampleCoin(row, draw);
  stretches_.resize((weights_.size() + kStretch - 1) / kStretch);
  ops_.stretches(weights_, stretches_);
  *total = std::accumulate(stretches_.begin(), stretches_.end(), 0.0);
  const double target = coin * *total;
  // Each of the two sums is off by at most the size of the row in halves of the last digit.
  const double margin = *total * static_cast<double>(weights_.size()) * 0x1.0p-51;
  double running = 0;
  size_t stretch = 0;
  while (stretch < stretches_.size() && running + stretches_[stretch] <= target) {
    running += stretches_[stretch++];
  }
  for (size_t id = stretch * kStretch; id < weights_.size(); ++id) {
    const double before = running;
    running += weights_[id];
    if (running <= target) continue;
    if (target - before < margin || running - target < margin) break;
    return static_cast<int32_t>(id);
  }
  return TossCoinExactly(coin, total);
}

int32_t RowSampler::TossCoinExactly(double coin, double* total) const {
  *total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  const double target = coin * *total;
  double running = 0;
  int32_t last = 0;
  for (size_t id = 0; id < weights_.size(); ++id) {
    running += weights_[id];
    if (weights_[id] > 0) last = static_cast<int32_t>(id);
    if (running > target) break;
  }
  return last;
}

RowSampler::Draw RowSampler::DrawOne(const SampleRow& row, std::span<const float> logits,
                                     const LogitRange& range, uint32_t draw) {
  Draw result;
  if (row.temperature == 0) {
    result.token = ops_.find(logits, range.highest);
    result.stop_mass = Contains(row.stop_ids, result.token) ? 1 : 0;
    return result;
  }
  weights_.resize(logits.size());
  ops_.weights(logits, range.highest, row.temperature, weights_);
  Cut cut;
  const bool cuts = FindTopCuts(row, logits, range, &cut);
  if (cuts || row.min_p > 0) ops_.drop(logits, cuts ? &cut : nullptr, row.min_p, weights_);
  double total = 0;
  result.token = TossCoin(row, draw, &total);
  ForEachInVocab(row.stop_ids, logits.size(),
                 [&](int32_t id) { result.stop_mass += weights_[id] / total; });
  return result;
}

void RowSampler::TopLogprobs(const SampleRow& row, std::span<const float> raw,
                             const LogitRange& range, double log_total, SampledToken& result) {
  const size_t count = std::min(raw.size(), static_cast<size_t>(row.num_top_logprobs));
  const Cut cut = FindCut(raw, range, {.count = static_cast<int64_t>(count)});
  Gather(raw, cut.logit, kInfinity, std::ssize(raw));
  candidates_.resize(count);
  result.top_logprobs.reserve(count);
  for (const Candidate& candidate : candidates_) {
    const double logprob = static_cast<double>(candidate.logit) - range.highest - log_total;
    result.top_logprobs.push_back({candidate.id, static_cast<float>(logprob)});
  }
}

void RowSampler::Run(const SampleRow& row, std::span<const float> raw, SampledToken& result) {
  result = SampledToken();
  const LogitRange range = ops_.range(raw);
  result.valid = range.valid;
  if (!result.valid) return;
  const ExpSums sums = ops_.exp_sums(raw, range.highest, BestId(row.eos_ids, raw));
  const double log_total = std::log(sums.total);
  result.eos.entropy = static_cast<float>(log_total - sums.weighted / sums.total);
  result.eos.top1_prob = static_cast<float>(1.0 / sums.total);
  FillEosLogprob(row.eos_ids, raw, range.highest, log_total, result.eos);
  if (result.eos.eos_rank != 0) result.eos.eos_rank = static_cast<int32_t>(1 + sums.before);

  const auto draw_from = [&](std::span<const float> logits, uint32_t draw) {
    const bool untouched = logits.data() == raw.data();
    return DrawOne(row, logits, untouched ? range : ops_.range(logits), draw);
  };
  Draw draw = draw_from(processors_.Process(row, raw), 0);
  result.eos.eos_prob_sampling = static_cast<float>(draw.stop_mass);
  if (row.redraw_eos && Contains(row.eos_ids, draw.token)) {
    result.natural_end = true;
    draw = draw_from(processors_.MaskEos(row, raw), 1);
  }
  result.token = draw.token;
  const double raw_logit = raw[draw.token];
  result.logprob = static_cast<float>(raw_logit - range.highest - log_total);
  if (row.num_top_logprobs > 0) TopLogprobs(row, raw, range, log_total, result);
}

}  // namespace baton::kernels::cpu
