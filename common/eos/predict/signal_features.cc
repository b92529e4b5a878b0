#include "common/eos/predict/signal_features.h"

#include <algorithm>
#include <cmath>

#include "common/base/token_boundary.h"

namespace baton {
namespace {

constexpr double kMost = 30;      // of log-odds, either way
constexpr double kNone = -kMost;  // log-odds that are not there
constexpr double kHazardSumMost = 50;

constexpr std::array<std::string_view, kFeatureCount> kFeatureNames = {"step",
                                                                       "log_step",
                                                                       "log_prompt",
                                                                       "temperature",
                                                                       "top_p",
                                                                       "lo",
                                                                       "so",
                                                                       "entropy",
                                                                       "top1",
                                                                       "log_rank",
                                                                       "lo_mean8",
                                                                       "lo_max8",
                                                                       "lo_std8",
                                                                       "lo_mean32",
                                                                       "lo_max32",
                                                                       "lo_std32",
                                                                       "lo_mean",
                                                                       "lo_max",
                                                                       "lo_std",
                                                                       "lo_slope32",
                                                                       "so_mean32",
                                                                       "so_max32",
                                                                       "ent_mean8",
                                                                       "ent_mean32",
                                                                       "lo_ema8",
                                                                       "lo_ema32",
                                                                       "lo_ema128",
                                                                       "cum_hazard",
                                                                       "boundary",
                                                                       "line",
                                                                       "since_boundary",
                                                                       "boundaries",
                                                                       "after_lo",
                                                                       "after_so",
                                                                       "after_lo_prev",
                                                                       "after_lo_prev2",
                                                                       "after_rise",
                                                                       "after_so_max",
                                                                       "boundary_lo",
                                                                       "repeat4",
                                                                       "lo_max16",
                                                                       "lo_max64"};
static_assert(kFeatureNames.back() == "lo_max64");

double Known(double value, double otherwise) { return std::isfinite(value) ? value : otherwise; }

double LogOdds(double logprob) {
  logprob = Known(logprob, kNone);
  return std::clamp(logprob - std::log1p(-std::exp(std::min(logprob, -1e-7))), -kMost, kMost);
}

struct Window {
  double mean = 0, max = 0, std = 0;
};

template <typename Values>
Window Over(const Values& values, int32_t most) {
  const int32_t count = values.size(most);
  Window window{.max = values.back(0)};
  for (int32_t age = 0; age < count; ++age) {
    window.mean += values.back(age);
    window.max = std::max(window.max, values.back(age));
  }
  window.mean /= count;
  for (int32_t age = 0; age < count; ++age) {
    window.std += (values.back(age) - window.mean) * (values.back(age) - window.mean);
  }
  window.std = std::sqrt(window.std / count);
  return window;
}

// Of the last `most` values against their place, by least squares.
template <typename Values>
double Slope(const Values& values, int32_t most) {
  const int32_t count = values.size(most);
  if (count < 2) return 0;
  const double middle = (count - 1) / 2.0;
  double up = 0, across = 0;
  for (int32_t age = 0; age < count; ++age) {
    const double place = middle - age;
    up += place * values.back(age);
    across += place * place;
  }
  return up / across;
}

// Grams are compared by this; that two differ and look equal does not happen in practice.
uint64_t Digest(const std::array<TokenId, 4>& gram) {
  uint64_t digest = 0x9E3779B97F4A7C15u;
  for (const TokenId token : gram) {
    digest ^= static_cast<uint32_t>(token);
    digest *= 0xBF58476D1CE4E5B9u;
    digest ^= digest >> 29;
  }
  return digest;
}

}  // namespace

std::string_view FeatureName(Feature feature) {
  return kFeatureNames[static_cast<size_t>(feature)];
}

std::optional<Feature> FeatureOfName(std::string_view name) {
  const auto found = std::find(kFeatureNames.begin(), kFeatureNames.end(), name);
  if (found == kFeatureNames.end()) return std::nullopt;
  return static_cast<Feature>(found - kFeatureNames.begin());
}

SignalFeatures::SignalFeatures(const PredictRequest& request, std::span<const TokenId> generated,
                               std::span<const uint8_t> boundaries) {
  at(Feature::kLogPrompt) = std::log(1.0 + request.prompt_tokens);
  at(Feature::kTemperature) = double{request.temperature};
  at(Feature::kTopP) = double{request.top_p};
  for (const Feature none : {Feature::kAfterLo, Feature::kAfterSo, Feature::kAfterLoPrev,
                             Feature::kAfterLoPrev2, Feature::kAfterSoMax, Feature::kBoundaryLo}) {
    at(none) = kNone;
  }
  for (const TokenId token : generated) AddToken(token, BoundaryOf(boundaries, token) != 0);
}

void SignalFeatures::AddToken(TokenId token, bool boundary) {
  ++step_;
  if (boundary) {
    last_boundary_ = step_;
    ++at(Feature::kBoundaries);
  }
  at(Feature::kSinceBoundary) = step_ - last_boundary_;
  last_was_boundary_ = boundary;

  std::rotate(gram_.begin(), gram_.begin() + 1, gram_.end());
  gram_.back() = token;
  if (step_ < static_cast<int32_t>(gram_.size())) return;
  const uint64_t gram = Digest(gram_);
  bool repeats = false;
  for (int32_t age = 0; age < grams_.size() && !repeats; ++age) repeats = grams_.back(age) == gram;
  if (repeats_.size() == 64 && repeats_.back(63)) --repeated_;
  repeated_ += repeats ? 1 : 0;
  repeats_.Push(repeats);
  grams_.Push(gram);
  at(Feature::kRepeat4) = static_cast<double>(repeated_) / repeats_.size();
}

void SignalFeatures::Add(const SignalRow& row) {
  const double lo = LogOdds(row.eos_logprob);
  const double prob = std::clamp(Known(row.eos_prob_sampling, 0), 1e-13, 1 - 1e-7);
  const double so = std::clamp(std::log(prob) - std::log1p(-prob), -kMost, kMost);
  const bool boundary = row.ends_line || row.ends_sentence;
  ++rows_;
  AddBoundary(lo, so, boundary);
  AddToken(row.token, boundary);
  at(Feature::kStep) = step_;
  at(Feature::kLogStep) = std::log(static_cast<double>(step_));
  at(Feature::kLo) = lo;
  at(Feature::kSo) = so;
  at(Feature::kEntropy) = Known(row.entropy, 0);
  at(Feature::kTop1) = Known(row.top1_prob, 0);
  at(Feature::kLogRank) = std::log(static_cast<double>(std::max(row.eos_rank, 1)));
  at(Feature::kBoundary) = boundary ? 1 : 0;
  at(Feature::kLine) = row.ends_line ? 1 : 0;
  hazard_sum_ -= std::log1p(-prob);
  at(Feature::kCumHazard) = std::min(hazard_sum_, kHazardSumMost);
  so_.Push(so);
  entropy_.Push(at(Feature::kEntropy));
  AddLogOdds(lo);
  SetWindows();
  probe_.assign(row.probe.begin(), row.probe.end());
  if (step_ == 1) first_probe_ = probe_;
}

// What the row that comes says of the boundaries before it.
void SignalFeatures::AddBoundary(double lo, double so, bool boundary) {
  if (last_was_boundary_) {
    ++afters_;
    at(Feature::kAfterLoPrev2) = at(Feature::kAfterLoPrev);
    at(Feature::kAfterLoPrev) = at(Feature::kAfterLo);
    at(Feature::kAfterLo) = lo;
    at(Feature::kAfterSo) = so;
    at(Feature::kAfterSoMax) = std::max(at(Feature::kAfterSoMax), so);
    if (afters_ >= 3) at(Feature::kAfterRise) = lo - at(Feature::kAfterLoPrev2);
  }
  if (boundary) at(Feature::kBoundaryLo) = lo;
}

void SignalFeatures::AddLogOdds(double lo) {
  lo_.Push(lo);
  const double before = lo_mean_;
  lo_mean_ += (lo - lo_mean_) / rows_;
  lo_squares_ += (lo - before) * (lo - lo_mean_);
  at(Feature::kLoMean) = lo_mean_;
  at(Feature::kLoStd) = std::sqrt(std::max(0.0, lo_squares_ / rows_));
  at(Feature::kLoMax) = rows_ == 1 ? lo : std::max(at(Feature::kLoMax), lo);
  for (const auto& [feature, window] :
       {std::pair(Feature::kLoEma8, 8), std::pair(Feature::kLoEma32, 32),
        std::pair(Feature::kLoEma128, 128)}) {
    double& average = at(feature);
    average = rows_ == 1 ? lo : average + (lo - average) * 2 / (window + 1);
  }
}

void SignalFeatures::SetWindows() {
  const Window lo8 = Over(lo_, 8), lo32 = Over(lo_, 32), so32 = Over(so_, 32);
  at(Feature::kLoMean8) = lo8.mean;
  at(Feature::kLoMax8) = lo8.max;
  at(Feature::kLoStd8) = lo8.std;
  at(Feature::kLoMean32) = lo32.mean;
  at(Feature::kLoMax32) = lo32.max;
  at(Feature::kLoStd32) = lo32.std;
  at(Feature::kSoMean32) = so32.mean;
  at(Feature::kSoMax32) = so32.max;
  at(Feature::kEntMean8) = Over(entropy_, 8).mean;
  at(Feature::kEntMean32) = Over(entropy_, 32).mean;
  at(Feature::kLoSlope32) = Slope(lo_, 32);
  double highest = lo_.back(0);
  for (int32_t age = 1; age < lo_.size(); ++age) {
    highest = std::max(highest, lo_.back(age));
    if (age == std::min(15, lo_.size() - 1)) at(Feature::kLoMax16) = highest;
  }
  if (lo_.size() == 1) at(Feature::kLoMax16) = highest;
  at(Feature::kLoMax64) = highest;
}

}  // namespace baton
