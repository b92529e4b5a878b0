#include "tools/sim/fit_cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"
#include "tools/bench/figures/prometheus_text.h"
#include "tools/sim/read_text.h"

namespace baton::simulator {
namespace {

using nlohmann::json;
constexpr size_t kTerms = 5;
using Terms = std::array<double, kTerms>;
constexpr size_t kFewest = 8;

Terms TermsOf(const StepWork& work) {
  return {1, work.rows, work.prompt_tokens, work.kv_tokens, work.products};
}

StepCost CostOf(const Terms& x) {
  return {.step = x[0], .row = x[1], .prompt_token = x[2], .kv_token = x[3], .product = x[4]};
}

// Solves the normal equations over the chosen terms by elimination. Empty when they do not decide.
std::optional<Terms> Solve(const std::array<Terms, kTerms>& a, const Terms& b,
                           const std::vector<size_t>& chosen) {
  const size_t n = chosen.size();
  std::array<std::array<double, kTerms + 1>, kTerms> m{};
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) m[i][j] = a[chosen[i]][chosen[j]];
    m[i][n] = b[chosen[i]];
  }
  for (size_t column = 0; column < n; ++column) {
    size_t pivot = column;
    for (size_t i = column; i < n; ++i) {
      if (std::abs(m[i][column]) > std::abs(m[pivot][column])) pivot = i;
    }
    std::swap(m[column], m[pivot]);
    if (std::abs(m[column][column]) < 1e-12) return std::nullopt;
    for (size_t i = 0; i < n; ++i) {
      if (i == column) continue;
      const double factor = m[i][column] / m[column][column];
      for (size_t j = column; j <= n; ++j) m[i][j] -= factor * m[column][j];
    }
  }
  Terms x{};
  for (size_t i = 0; i < n; ++i) x[chosen[i]] = m[i][n] / m[i][i];
  return x;
}

absl::Status Bad(const std::string& where, const std::string& found, const std::string& expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": found ", found, "; expected ", expected));
}

// The figures that bench_model printed; discarded where there are none.
json BenchFigures(const std::string& text) {
  json all = json::parse(text, nullptr, false);
  if (!all.is_discarded()) return all;
  const size_t end = text.find_last_not_of(" \n\r");
  if (end == text.npos) return all;
  const size_t begin = text.rfind('\n', end);
  const size_t from = begin == text.npos ? 0 : begin + 1;
  return json::parse(text.substr(from, end + 1 - from), nullptr, false);
}

// A positive number under `key`; `fallback` where there is none of that name.
absl::StatusOr<double> Number(const json& object, const char* key, const std::string& where,
                              std::optional<double> fallback = std::nullopt) {
  const auto found = object.find(key);
  if (found == object.end() && fallback) return *fallback;
  if (found != object.end() && found->is_number()) {
    const double value = found->get<double>();
    if (value > 0 && value < 1e12) return value;
  }
  return Bad(absl::StrCat(where, ".", key), found == object.end() ? "nothing" : found->dump(),
             "a number above 0, as bench_model --json prints");
}

absl::Status AddBenchRun(const json& run, const std::string& path,
                         std::vector<MeasuredStep>* steps) {
  if (!run.is_object() || (!run.contains("prefill") && !run.contains("decode"))) {
    return Bad(path, "no measured steps",
               "the output of bench_model --json, or a worker's metrics page");
  }
  for (const char* const kind : {"prefill", "decode"}) {
    const json list = run.value(kind, json::array());
    if (!list.is_array()) return Bad(path, absl::StrCat(kind, " that is no list"), "a list");
    for (size_t i = 0; i < list.size(); ++i) {
      MeasuredStep step;
      step.where = absl::StrCat(path, ": ", kind, "[", i, "]");
      const json& size = list[i];
      if (!size.is_object()) return Bad(step.where, size.dump(), "an object");
      BATON_ASSIGN_OR_RETURN(const double ms, Number(size, "ms", step.where));
      step.microseconds = 1e3 * ms;
      if (std::string(kind) == "prefill") {
        BATON_ASSIGN_OR_RETURN(const double count, Number(size, "count", step.where));
        BATON_ASSIGN_OR_RETURN(const double tokens, Number(size, "tokens", step.where));
        step.work = {.prompt_tokens = count * tokens,
                     .products = count * tokens * (tokens + 1) / 2};
      } else {
        BATON_ASSIGN_OR_RETURN(const double batch, Number(size, "batch", step.where));
        BATON_ASSIGN_OR_RETURN(const double context, Number(size, "context", step.where));
        BATON_ASSIGN_OR_RETURN(const double mean,
                               Number(size, "mean_context", step.where, context));
        step.work = {.rows = batch, .kv_tokens = batch * mean};
      }
      steps->push_back(std::move(step));
    }
  }
  return absl::OkStatus();
}

// Sums of a worker's steps since it began.
struct PageSums {
  double steps = 0, seconds = 0, tokens = 0, rows = 0;
};

absl::StatusOr<PageSums> ReadPage(const std::string& text, const std::string& path) {
  const auto samples = bench::ParsePrometheusText(text);
  if (!samples.ok()) {
    return Bad(path, std::string(samples.status().message()),
               "the output of bench_model --json, or a worker's metrics page");
  }
  PageSums sums;
  bool any = false;
  for (const bench::MetricSample& sample : *samples) {
    if (sample.name == "baton_iteration_duration_seconds_sum") {
      sums.seconds += sample.value;
      any = true;
    } else if (sample.name == "baton_iteration_duration_seconds_count") {
      sums.steps += sample.value;
    } else if (sample.name == "baton_iteration_tokens_sum") {
      sums.tokens += sample.value;
    } else if (sample.name == "baton_batch_size_sum") {
      const auto phase = sample.labels.find("phase");
      if (phase != sample.labels.end() && phase->second == "decode") sums.rows += sample.value;
    }
  }
  if (!any) {
    return Bad(path, "no baton_iteration_duration_seconds",
               "the metrics page of a prefill or decode worker");
  }
  return sums;
}

void AddPages(const PageSums& before, const PageSums& after, const std::string& where,
              std::vector<MeasuredStep>* steps) {
  const double count = after.steps - before.steps;
  const double seconds = after.seconds - before.seconds;
  // Nothing ran, or it is another process.
  if (!(count >= 1) || !(seconds > 0) || after.tokens < before.tokens) return;
  const double rows = (after.rows - before.rows) / count;
  const double tokens = (after.tokens - before.tokens) / count;
  steps->push_back({.work = {.rows = rows, .prompt_tokens = std::max(0.0, tokens - rows)},
                    .microseconds = 1e6 * seconds / count,
                    .where = where});
}

double ErrorOf(const StepCost& cost, const MeasuredStep& step) {
  return std::abs(cost.Microseconds(step.work) / step.microseconds - 1);
}

}  // namespace

absl::StatusOr<std::vector<MeasuredStep>> ReadMeasuredSteps(const std::vector<std::string>& paths) {
  std::vector<MeasuredStep> steps;
  PageSums before;
  bool has_before = false;  // a page stands in front
  for (const std::string& path : paths) {
    BATON_ASSIGN_OR_RETURN(const std::string text, ReadText(path, ""));
    const json figures = BenchFigures(text);
    if (!figures.is_discarded()) {
      const json runs = figures.is_array() ? figures : json::array({figures});
      for (const json& run : runs) BATON_RETURN_IF_ERROR(AddBenchRun(run, path, &steps));
      has_before = false;
      continue;
    }
    BATON_ASSIGN_OR_RETURN(const PageSums page, ReadPage(text, path));
    if (has_before) AddPages(before, page, path, &steps);
    before = page;
    has_before = true;
  }
  return steps;
}

// There are few terms, so every choice of those that may be above zero is tried.
StepCost FitCost(const std::vector<MeasuredStep>& steps) {
  std::array<Terms, kTerms> a{};
  Terms b{};
  for (const MeasuredStep& step : steps) {
    Terms row = TermsOf(step.work);
    for (double& term : row) term /= step.microseconds;
    for (size_t i = 0; i < kTerms; ++i) {
      b[i] += row[i];
      for (size_t j = 0; j < kTerms; ++j) a[i][j] += row[i] * row[j];
    }
  }
  // Terms of one size, so that elimination knows what is next to nothing.
  Terms scale{};
  for (size_t i = 0; i < kTerms; ++i) scale[i] = a[i][i] > 0 ? std::sqrt(a[i][i]) : 0;
  for (size_t i = 0; i < kTerms; ++i) {
    if (scale[i] == 0) continue;
    b[i] /= scale[i];
    for (size_t j = 0; j < kTerms; ++j) a[i][j] = scale[j] == 0 ? 0 : a[i][j] / scale[i] / scale[j];
  }
  Terms best{};
  double least = 0;  // of the squares, less their part that no choice changes
  for (uint32_t choice = 1; choice < 1U << kTerms; ++choice) {
    std::vector<size_t> chosen;
    for (size_t i = 0; i < kTerms; ++i) {
      if ((choice >> i & 1) != 0) chosen.push_back(i);
    }
    const auto x = Solve(a, b, chosen);
    if (!x || std::ranges::any_of(*x, [](double value) { return !(value >= 0); })) continue;
    double squares = 0;
    for (size_t i = 0; i < kTerms; ++i) {
      squares -= 2 * (*x)[i] * b[i];
      for (size_t j = 0; j < kTerms; ++j) squares += (*x)[i] * a[i][j] * (*x)[j];
    }
    if (squares < least) {
      least = squares;
      best = *x;
    }
  }
  for (size_t i = 0; i < kTerms; ++i) {
    if (scale[i] > 0) best[i] /= scale[i];
  }
  return CostOf(best);
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
