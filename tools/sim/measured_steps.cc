#include "tools/sim/measured_steps.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/shallow_json.h"
#include "nlohmann/json.hpp"
#include "tools/bench/figures/prometheus_text.h"
#include "tools/sim/read_text.h"

namespace baton::simulator {
namespace {

using nlohmann::json;

absl::Status Bad(const std::string& where, const std::string& found, const std::string& expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": found ", found, "; expected ", expected));
}

// The figures that bench_model printed; discarded where there are none.
json BenchFigures(const std::string& text) {
  json all = ParseShallow(text).value;
  if (!all.is_discarded()) return all;
  const size_t end = text.find_last_not_of(" \n\r");
  if (end == text.npos) return all;
  const size_t begin = text.rfind('\n', end);
  const size_t from = begin == text.npos ? 0 : begin + 1;
  return ParseShallow(std::string_view(text).substr(from, end + 1 - from)).value;
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

}  // namespace baton::simulator
