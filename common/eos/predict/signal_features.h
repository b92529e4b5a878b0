#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"

namespace baton {

// What a predictor is told of the token that a step drew. Values that are not finite count as
// missing. docs/eos-prediction.md says what they mean.
struct SignalRow {
  double eos_logprob = 0;        // raw distribution, nats
  double eos_prob_sampling = 0;  // the hazard of stopping at this step
  double entropy = 0;            // nats
  double top1_prob = 0;
  int32_t eos_rank = 0;
  TokenId token = 0;
  bool ends_line = false;
  bool ends_sentence = false;
  std::span<const float> probe;  // empty: none was computed
};

// What a predictor is told of a request before its first token.
struct PredictRequest {
  int32_t prompt_tokens = 0;
  float temperature = 0;
  float top_p = 1;
  std::string length_class;  // requests of one class are expected to be of similar length
  int32_t min_tokens = 0;    // tokens of the output before which it cannot end
};

// A number that is computed of the rows so far; docs/eos-prediction.md has the formulas.
enum class Feature : uint8_t {
  kStep,
  kLogStep,
  kLogPrompt,
  kTemperature,
  kTopP,
  kLo,
  kSo,
  kEntropy,
  kTop1,
  kLogRank,
  kLoMean8,
  kLoMax8,
  kLoStd8,
  kLoMean32,
  kLoMax32,
  kLoStd32,
  kLoMean,
  kLoMax,
  kLoStd,
  kLoSlope32,
  kSoMean32,
  kSoMax32,
  kEntMean8,
  kEntMean32,
  kLoEma8,
  kLoEma32,
  kLoEma128,
  kCumHazard,
  kBoundary,
  kLine,
  kSinceBoundary,
  kBoundaries,
  kAfterLo,
  kAfterSo,
  kAfterLoPrev,
  kAfterLoPrev2,
  kAfterRise,
  kAfterSoMax,
  kBoundaryLo,
  kRepeat4,
  kLoMax16,
  kLoMax64,
  kCount,
};
inline constexpr size_t kFeatureCount = static_cast<size_t>(Feature::kCount);
using FeatureValues = std::array<double, kFeatureCount>;

// The name of a feature in predictor files: "log_step", ….
std::string_view FeatureName(Feature feature);
std::optional<Feature> FeatureOfName(std::string_view name);

// The last `kSize` values of a series.
template <typename T, int32_t kSize>
class RecentValues {
 public:
  void Push(T value) {
    values_[count_ % kSize] = value;
    ++count_;
  }
  // How many of the last `most` there are.
  int32_t size(int32_t most = kSize) const {
    const auto bound = static_cast<uint64_t>(most);
    return static_cast<int32_t>(count_ < bound ? count_ : bound);
  }
  // The value that came `age` pushes before the last one.
  T back(int32_t age) const { return values_[(count_ - 1 - static_cast<uint64_t>(age)) % kSize]; }

 private:
  std::array<T, kSize> values_{};
  uint64_t count_ = 0;
};

// All features of one sequence, row by row, in constant time and memory. A value copied goes on by
// itself.
class SignalFeatures final {
 public:
  // `generated` are the tokens that earlier attempts drew: what depends on tokens alone is rebuilt
  // from them, and what depends on their signals starts anew behind them. `boundaries` is the table
  // of common/base/token_boundary.h.
  explicit SignalFeatures(const PredictRequest& request, std::span<const TokenId> generated = {},
                          std::span<const uint8_t> boundaries = {});

  // Takes the row of the next step.
  void Add(const SignalRow& row);

  // Of the last row.
  const FeatureValues& values() const { return values_; }
  std::span<const float> probe() const { return probe_; }
  std::span<const float> first_probe() const { return first_probe_; }
  // The step of the last row, counted from 1.
  int32_t step() const { return step_; }
  // How many rows with their signals were seen.
  int32_t rows() const { return rows_; }
  // Whether it began behind tokens whose signals are not known.
  bool restarted() const { return step_ > rows_; }

 private:
  void AddToken(TokenId token, bool boundary);
  void AddLogOdds(double lo);
  void AddBoundary(double lo, double so, bool boundary);
  void SetWindows();
  double& at(Feature feature) { return values_[static_cast<size_t>(feature)]; }

  FeatureValues values_{};
  std::vector<float> probe_, first_probe_;
  int32_t step_ = 0;
  int32_t rows_ = 0;

  RecentValues<double, 64> lo_;
  RecentValues<double, 32> so_, entropy_;
  double lo_mean_ = 0, lo_squares_ = 0;  // Welford's, over all rows
  double hazard_sum_ = 0;

  bool last_was_boundary_ = false;
  int32_t last_boundary_ = 0;  // step; 0 = none
  int32_t afters_ = 0;         // rows behind a boundary, that were seen

  std::array<TokenId, 4> gram_{};  // the last tokens, oldest first
  RecentValues<uint64_t, 64> grams_;
  RecentValues<bool, 64> repeats_;
  int32_t repeated_ = 0;  // of `repeats_`
};

}  // namespace baton
