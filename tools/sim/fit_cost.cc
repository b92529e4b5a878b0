#include "tools/sim/fit_cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "tools/sim/least_squares.h"

namespace baton::simulator {
namespace {

constexpr size_t kFewest = 8;
constexpr size_t kSamplesPerBend = 12;
constexpr std::ptrdiff_t kFewestAside = 3;  // samples on either side of a bend
// Where rows may bend: every choice costs a fit, and a bend is not known to better than this.
constexpr std::array<double, 13> kKnots = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
// No measurement is nearer to the truth, so what is smaller is no reason for a bend.
constexpr double kNoise = 0.002;

using Bends = std::vector<double>;  // rows, ascending

std::vector<double> TermsOf(const StepWork& work, const Bends& bends) {
  std::vector<double> terms = {1, work.rows, work.prompt_tokens, work.kv_tokens, work.products};
  for (const double beyond : bends) terms.push_back(std::max(0.0, work.rows - beyond));
  return terms;
}

StepCost CostOf(const std::vector<double>& x, const Bends& bends) {
  StepCost cost{.step = x[0], .row = x[1], .prompt_token = x[2], .kv_token = x[3], .product = x[4]};
  size_t used = 0;
  for (size_t i = 0; i < bends.size(); ++i) {
    if (x[5 + i] > 0) cost.row_bends[used++] = {.beyond = bends[i], .more = x[5 + i]};
  }
  return cost;
}

struct Bent {
  StepCost cost;
  double badness = 0;  // Bayes's information criterion
};

Bent FitWith(const std::vector<MeasuredStep>& steps, const Bends& bends) {
  std::vector<std::vector<double>> samples;
  for (const MeasuredStep& step : steps) {
    samples.push_back(TermsOf(step.work, bends));
    for (double& term : samples.back()) term /= step.microseconds;
  }
  const LeastSquares fit = NonNegativeSumToOne(samples);
  const auto count = static_cast<double>(steps.size());
  // A bend counts for its height and for its place, which was chosen among so many.
  const double each = std::log(count) + 2 * std::log(static_cast<double>(kKnots.size()));
  return {.cost = CostOf(fit.weights, bends),
          .badness = count * std::log(fit.squares / count + kNoise * kNoise) +
                     each * static_cast<double>(bends.size())};
}

Bends BendsWorthATry(const std::vector<MeasuredStep>& steps) {
  Bends worth;
  for (const double beyond : kKnots) {
    const auto above = std::ranges::count_if(
        steps, [beyond](const MeasuredStep& step) { return step.work.rows > beyond; });
    const auto below = std::ranges::count_if(steps, [beyond](const MeasuredStep& step) {
      return step.work.rows > 0 && step.work.rows <= beyond;
    });
    if (std::min(above, below) >= kFewestAside) worth.push_back(beyond);
  }
  return worth;
}

double ErrorOf(const StepCost& cost, const MeasuredStep& step) {
  return std::abs(cost.Microseconds(step.work) / step.microseconds - 1);
}

}  // namespace

StepCost FitCost(const std::vector<MeasuredStep>& steps) {
  BATON_CHECK(!steps.empty());
  Bent best = FitWith(steps, {});
  const auto keep = [&](const Bends& bends) {
    Bent bent = FitWith(steps, bends);
    if (bent.badness < best.badness) best = bent;
  };
  const Bends worth = BendsWorthATry(steps);
  for (size_t i = 0; i < worth.size() && steps.size() >= kSamplesPerBend; ++i) {
    keep({worth[i]});
    for (size_t j = i + 1; j < worth.size() && steps.size() >= 2 * kSamplesPerBend; ++j) {
      keep({worth[i], worth[j]});
    }
  }
  return best.cost;
}

absl::StatusOr<FitReport> FitAndCheck(const std::vector<MeasuredStep>& steps, uint64_t seed) {
  if (steps.size() < kFewest) {
    return absl::InvalidArgumentError(
        absl::StrCat("found ", steps.size(), " measured steps; expected at least ", kFewest,
                     ": more sizes (bench_model --sweep --json), or more metrics pages under "
                     "different loads"));
  }
  std::vector<size_t> order(steps.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::mt19937_64 dice(seed);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[dice() % i]);
  std::vector<MeasuredStep> fitted, aside;
  for (size_t i = 0; i < order.size(); ++i) {
    (i % 4 == 3 ? aside : fitted).push_back(steps[order[i]]);
  }
  FitReport report{.cost = FitCost(fitted)};
  report.fitted = static_cast<int64_t>(fitted.size());
  report.kept_aside = static_cast<int64_t>(aside.size());
  for (const MeasuredStep& step : fitted) report.fitted_error += ErrorOf(report.cost, step);
  report.fitted_error /= static_cast<double>(fitted.size());
  for (const MeasuredStep& step : aside) {
    const double error = ErrorOf(report.cost, step);
    report.aside_error += error / static_cast<double>(aside.size());
    if (error < report.aside_worst) continue;
    report.aside_worst = error;
    report.worst_where = step.where;
  }
  return report;
}

}  // namespace baton::simulator
