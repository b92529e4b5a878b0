#include "kernels/cpu/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/sample_weights.h"

namespace baton::kernels::cpu {
namespace {

constexpr size_t kCheckpoint = 512;  // weights between two remembered sums
constexpr int kBins = 4096;

// Divides logits into bins from high to low: bin 0 holds the highest, the last one everything far
// below.
class Binning {
 public:
  explicit Binning(const LogitRange& range) : highest_(range.highest) {
    const float width = std::min(range.highest - range.lowest, 64.0f);
    scale_ = width > 0 ? static_cast<float>(kBins - 1) / width : 0;
  }
  int Bin(float logit) const {
    const float distance = (highest_ - logit) * scale_;
    return distance < static_cast<float>(kBins - 1) ? static_cast<int>(distance) : kBins - 1;
  }

 private:
  float highest_;
  float scale_;
};

}  // namespace

// Finds the last id that is kept when ids are taken in the order of their rank until there are
// `count` of them, or until they hold the share `top_p` of the nucleus mass. A histogram finds the
// bin of that id, and only that bin is sorted.
Cut RowSampler::FindCut(std::span<const float> logits, const LogitRange& range, const Cut* within,
                        const Wanted& wanted) {
  const Binning binning(range);
  const auto value = [&](size_t id) {
    return wanted.count > 0 ? uint64_t{1} : NucleusMass(weights_[id]);
  };
  const auto kept = [&](size_t id) {
    return within == nullptr || within->Keeps(logits[id], static_cast<int32_t>(id));
  };
  histogram_.assign(kBins, 0);
  for (size_t id = 0; id < logits.size(); ++id) {
    if (kept(id)) histogram_[binning.Bin(logits[id])] += value(id);
  }
  const double needed =
      wanted.count > 0
          ? static_cast<double>(wanted.count)
          : NucleusNeeded(wanted.top_p,
                          std::accumulate(histogram_.begin(), histogram_.end(), uint64_t{0}));
  uint64_t before = 0;
  int bin = 0;
  while (bin < kBins - 1 &&
         (histogram_[bin] == 0 || static_cast<double>(before + histogram_[bin]) < needed)) {
    before += histogram_[bin++];
  }
  candidates_.clear();
  for (size_t id = 0; id < logits.size(); ++id) {
    if (kept(id) && binning.Bin(logits[id]) == bin) {
      candidates_.push_back({logits[id], static_cast<int32_t>(id)});
    }
  }
  // Ids are in ascending order already, so nothing has to be sorted where all logits are equal.
  const bool flat = std::all_of(candidates_.begin(), candidates_.end(), [&](const Candidate& c) {
    return c.logit == candidates_.front().logit;
  });
  if (!flat) {
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
    });
  }
  Cut cut{-std::numeric_limits<float>::infinity(), std::numeric_limits<int32_t>::max()};
  for (const Candidate& candidate : candidates_) {
    before += value(candidate.id);
    if (static_cast<double>(before) >= needed) return {candidate.logit, candidate.id};
  }
  return within != nullptr ? *within : cut;
}

// Returns false when top-k and top-p drop nothing.
bool RowSampler::FindTopCuts(const SampleRow& row, std::span<const float> logits,
                             const LogitRange& range, Cut* cut) {
  bool found = false;
  if (row.top_k > 0 && static_cast<size_t>(row.top_k) < logits.size()) {
    *cut = FindCut(logits, range, nullptr, {.count = row.top_k});
    found = true;
  }
  if (row.top_p < 1) {
    *cut = FindCut(logits, range, found ? cut : nullptr, {.top_p = row.top_p});
    found = true;
  }
  return found;
}

// Draws the first id whose running sum exceeds u x total. The first pass keeps its sums at
// checkpoints, so the second looks at one stretch only.
int32_t RowSampler::TossCoin(const SampleRow& row, uint32_t draw, double* total) {
  running_.clear();
  double sum = 0;
  for (size_t id = 0; id < weights_.size(); ++id) {
    if (id % kCheckpoint == 0) running_.push_back(sum);
    sum += weights_[id];
  }
  *total = sum;
  const double target = SampleCoin(row, draw) * sum;
  const auto past = std::upper_bound(running_.begin(), running_.end(), target);
  const size_t stretch = static_cast<size_t>(past - running_.begin()) - 1;
  double running = running_[stretch];
  int32_t last = 0;
  for (size_t id = stretch * kCheckpoint; id < weights_.size(); ++id) {
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
  const Cut cut = FindCut(raw, range, nullptr, {.count = static_cast<int64_t>(count)});
  candidates_.clear();
  for (size_t id = 0; id < raw.size(); ++id) {
    if (cut.Keeps(raw[id], static_cast<int32_t>(id))) {
      candidates_.push_back({raw[id], static_cast<int32_t>(id)});
    }
  }
  std::stable_sort(candidates_.begin(), candidates_.end(),
                   [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
  result.top_logprobs.reserve(count);
  for (const Candidate& candidate : candidates_) {
    const double logprob = static_cast<double>(candidate.logit) - range.highest - log_total;
    result.top_logprobs.push_back({candidate.id, static_cast<float>(logprob)});
  }
}

bool RowSampler::Run(const SampleRow& row, std::span<const float> raw, SampledToken& result) {
  result = SampledToken();
  const LogitRange range = ops_.range(raw);
  if (!range.valid) return false;
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
  return true;
}

}  // namespace baton::kernels::cpu
