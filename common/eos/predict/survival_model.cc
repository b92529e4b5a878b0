#include <algorithm>
#include <cmath>

#include "common/eos/predict/models.h"

namespace baton {
namespace {

constexpr double kLeast = 1e-9;  // chance

}  // namespace

EndLogits SurvivalCurve::LogitsAfter(int32_t step) const {
  EndLogits logits{};
  auto at = static_cast<size_t>(std::lower_bound(steps.begin(), steps.end(), int64_t{step} + 1) -
                                steps.begin());
  int64_t from = step;
  for (size_t bin = 0; bin < kBins; ++bin) {
    const int64_t to = int64_t{step} + kBinEnds[bin];
    double log_survival = 0;  // of the bin
    while (from < to) {
      const bool behind = at + 1 >= steps.size();  // the last hazard holds for ever
      const int64_t end = behind ? to : std::min<int64_t>(to, steps[at]);
      log_survival +=
          static_cast<double>(end - from) * log_survivals[std::min(at, steps.size() - 1)];
      from = end;
      if (!behind && end == steps[at]) ++at;
    }
    const double ends = std::clamp(-std::expm1(log_survival), kLeast, 1 - kLeast);
    logits[bin] = std::log(ends) - std::log1p(-ends);
  }
  return logits;
}

EndLogits SurvivalModel::Step(const PredictorInput& input, std::span<double>) const {
  const auto found = classes_.find(input.length_class);
  const SurvivalCurve& curve = (found == classes_.end() ? default_ : found)->second;
  return curve.LogitsAfter(input.features.step());
}

}  // namespace baton
