#include "tools/sim/sim_figures.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/config/flag_set.h"

namespace baton::simulator {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kNothing[] = "–";  // as the tables of the bench have it

double E2e(const RequestOutcome& request) { return request.last_token - request.arrived; }
double Ttft(const RequestOutcome& request) { return request.first_token - request.arrived; }
double Tpot(const RequestOutcome& request) {
  if (request.output_tokens < 2) return 0;
  return (request.last_token - request.first_token) / (request.output_tokens - 1);
}

bool Keeps(const RequestOutcome& request, const bench::Slo& slo) {
  return std::ranges::all_of(slo.limits, [&](const bench::SloLimit& limit) {
    const double seconds = limit.metric == bench::SloMetric::kTtft   ? Ttft(request)
                           : limit.metric == bench::SloMetric::kTpot ? Tpot(request)
                                                                     : E2e(request);
    return 1e3 * seconds <= limit.limit_ms;
  });
}

Json SummaryJson(const bench::Summary& summary) {
  if (summary.count == 0) return nullptr;
  return {{"count", summary.count}, {"mean", summary.mean}, {"p50", summary.p50},
          {"p90", summary.p90},     {"p99", summary.p99},   {"max", summary.max}};
}

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

// Numbers of a picture, rounded so that a file of many runs stays small.
Json Rounded(const std::vector<double>& numbers, double steps) {
  Json rounded = Json::array();
  for (const double number : numbers) rounded.push_back(std::round(number * steps) / steps);
  return rounded;
}

Json LatencyJson(const bench::Summary& summary, const std::vector<double>& at_ms) {
  Json latency = SummaryJson(summary);
  if (!latency.is_null()) latency["at"] = Rounded(at_ms, 1e3);
  return latency;
}

Json OverTimeJson(const SimFigures& run) {
  return {{"every_s", base::Seconds(run.cluster.span)},
          {"kv_use", Rounded(run.cluster.kv_use, 1e4)},
          {"waiting", Rounded(run.waiting, 1e2)}};
}

Json RunJson(uint64_t seed, const SimFigures& run) {
  const ClusterOutcome& cluster = run.cluster;
  return {{"seed", seed},
          {"completed", run.completed},
          {"refused", run.refused},
          {"first_refusal", run.refused > 0 ? Json(cluster.first_refusal) : Json(nullptr)},
          {"duration_s", run.duration_s},
          {"request_throughput", run.request_throughput},
          {"output_throughput", run.output_throughput},
          {"ttft_ms", LatencyJson(run.ttft_ms, run.ttft_at_ms)},
          {"tpot_ms", LatencyJson(run.tpot_ms, run.tpot_at_ms)},
          {"e2e_ms", LatencyJson(run.e2e_ms, run.e2e_at_ms)},
          {"request_goodput", OrNull(run.goodput)},
          {"goodput_share", OrNull(run.goodput_share)},
          {"preemptions", cluster.preemptions},
          {"swaps", cluster.swaps},
          {"revocations", cluster.revocations},
          {"full", cluster.full},
          {"kv_use_p50", cluster.kv_p50},
          {"kv_use_p95", cluster.kv_p95},
          {"over_time", OverTimeJson(run)},
          {"steps", cluster.steps},
          {"busy_share", cluster.busy_share},
          {"tokens_fed", cluster.tokens_fed},
          {"tokens_fed_again", cluster.tokens_fed_again},
          {"rows_discarded", cluster.rows_discarded},
          {"wasted_share", run.wasted_share},
          {"cached_share", run.cached_share},
          {"prefix_queries", cluster.prefix_queries},
          {"prefix_hits", cluster.prefix_hits},
          {"handoffs", cluster.handoffs},
          {"handoff_bytes", cluster.handoff_bytes},
          {"role_changes", cluster.role_changes}};
}

// Of Student's t: 97.5 % of it is below, by degrees of freedom from 1.
double T975(size_t degrees) {
  double low = 0, high = 13;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    const bool below = bench::StudentTCdf(middle, static_cast<double>(degrees)) < 0.975;
    (below ? low : high) = middle;
  }
  return high;
}

// What a run says of one row of the table; nothing where it measured none of it.
using FigureOf = std::function<std::optional<double>(const SimFigures&)>;

// "12.3 ± 0.4" of several runs, "12.3" of one, of those that have the number.
std::string Cell(const std::vector<SimFigures>& runs, const FigureOf& number) {
  std::vector<double> numbers;
  for (const SimFigures& run : runs) {
    if (const auto found = number(run)) numbers.push_back(*found);
  }
  if (numbers.empty()) return kNothing;
  const auto n = static_cast<double>(numbers.size());
  const double mean = std::accumulate(numbers.begin(), numbers.end(), 0.0) / n;
  std::string cell = absl::StrFormat("%.4g", mean);
  if (numbers.size() == 1) return cell;
  double squares = 0;
  for (const double one : numbers) squares += std::pow(one - mean, 2);
  const double half = T975(numbers.size() - 1) * std::sqrt(squares / (n - 1) / n);
  absl::StrAppendFormat(&cell, " ± %.2g", half);
  return cell;
}

std::vector<double> AtShares(std::vector<double> samples) {
  std::vector<double> at;
  std::ranges::sort(samples);
  for (const double share : kShares) {
    if (!samples.empty()) at.push_back(bench::PercentileOfSorted(samples, 100 * share));
  }
  return at;
}

// How many wait for their first token, as a mean over each of `count` spans until `end`.
std::vector<double> WaitingOverTime(const std::vector<RequestOutcome>& requests, double span_s,
                                    size_t count, double end) {
  std::vector<double> waiting(count);
  if (count == 0) return waiting;
  for (const RequestOutcome& request : requests) {
    if (request.output_tokens == 0) continue;
    double from = request.arrived;
    for (auto span = static_cast<size_t>(from / span_s); span < count && from < request.first_token;
         ++span) {
      const double until = std::min(request.first_token, span_s * static_cast<double>(span + 1));
      waiting[span] += (until - from) / span_s;
      from = until;
    }
  }
  const double last = end - span_s * static_cast<double>(count - 1);
  if (last > 0 && last < span_s) waiting.back() *= span_s / last;
  return waiting;
}

struct Column {
  const char* name;
  FigureOf number;
};

FigureOf Latency(bench::Summary SimFigures::*latency, double bench::Summary::*value) {
  return [latency, value](const SimFigures& run) -> std::optional<double> {
    const bench::Summary& summary = run.*latency;
    if (summary.count == 0) return std::nullopt;
    return summary.*value;
  };
}

std::vector<Column> Columns(bool with_slo) {
  std::vector<Column> columns = {
      {"TTFT mean, ms", Latency(&SimFigures::ttft_ms, &bench::Summary::mean)},
      {"TTFT P50", Latency(&SimFigures::ttft_ms, &bench::Summary::p50)},
      {"TTFT P99", Latency(&SimFigures::ttft_ms, &bench::Summary::p99)},
      {"TPOT mean, ms", Latency(&SimFigures::tpot_ms, &bench::Summary::mean)},
      {"TPOT P50", Latency(&SimFigures::tpot_ms, &bench::Summary::p50)},
      {"TPOT P99", Latency(&SimFigures::tpot_ms, &bench::Summary::p99)},
      {"end to end mean, ms", Latency(&SimFigures::e2e_ms, &bench::Summary::mean)},
      {"end to end P50", Latency(&SimFigures::e2e_ms, &bench::Summary::p50)},
      {"end to end P99", Latency(&SimFigures::e2e_ms, &bench::Summary::p99)},
      {"requests/s", [](const SimFigures& run) { return run.request_throughput; }},
      {"output tokens/s", [](const SimFigures& run) { return run.output_throughput; }}};
  if (with_slo) {
    columns.push_back({"goodput, requests/s", [](const SimFigures& run) { return *run.goodput; }});
    columns.push_back(
        {"goodput, %", [](const SimFigures& run) { return 100 * *run.goodput_share; }});
  }
  const std::vector<Column> rest = {
      {"refused", [](const SimFigures& run) { return static_cast<double>(run.refused); }},
      {"preemptions",
       [](const SimFigures& run) { return static_cast<double>(run.cluster.preemptions); }},
      {"of these swapped",
       [](const SimFigures& run) { return static_cast<double>(run.cluster.swaps); }},
      {"KV use P50, %", [](const SimFigures& run) { return 100 * run.cluster.kv_p50; }},
      {"KV use P95, %", [](const SimFigures& run) { return 100 * run.cluster.kv_p95; }},
      {"wasted work, %", [](const SimFigures& run) { return 100 * run.wasted_share; }},
      {"prompt cached, %", [](const SimFigures& run) { return 100 * run.cached_share; }},
      {"busy, %", [](const SimFigures& run) { return 100 * run.cluster.busy_share; }}};
  columns.insert(columns.end(), rest.begin(), rest.end());
  return columns;
}

// By what it differs from the other results.
std::string NameOf(const PolicyResult& result, const std::vector<PolicyResult>& among) {
  const auto all_have = [&](std::string PolicyResult::*field) {
    return std::ranges::all_of(
        among, [&](const PolicyResult& other) { return other.*field == result.*field; });
  };
  if (all_have(&PolicyResult::routing)) return result.policy;
  if (all_have(&PolicyResult::policy)) return result.routing;
  return result.policy + " " + result.routing;
}

// Characters of UTF-8 text.
size_t Width(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string Padded(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, Width(text)), ' ');
}

}  // namespace

absl::StatusOr<bench::Slo> ParseSimSlo(const std::string& text) {
  if (bench::SloNamesReader(text)) {
    return absl::InvalidArgumentError(
        "--slo: a reader's speed needs a tokenizer; give tpot in milliseconds");
  }
  BATON_ASSIGN_OR_RETURN(bench::Slo slo, bench::ParseSlo(text, 0, "ttft, tpot or e2e"));
  for (const bench::SloLimit& limit : slo.limits) {
    if (limit.metric == bench::SloMetric::kItl || limit.metric == bench::SloMetric::kMaxGap) {
      return absl::InvalidArgumentError(
          absl::StrCat("--slo: found ", std::string(bench::SloMetricName(limit.metric)),
                       ", which is not simulated; expected ttft, tpot and e2e"));
    }
  }
  return slo;
}

SimFigures FiguresOf(ClusterOutcome outcome, base::Duration warmup,
                     const std::optional<bench::Slo>& slo) {
  SimFigures figures;
  std::vector<double> ttft, tpot, e2e;
  double first = 0, last = 0, tokens = 0;
  int64_t good = 0, came = 0;
  for (const RequestOutcome& request : outcome.requests) {
    if (request.arrived < base::Seconds(warmup)) continue;
    if (came++ == 0) first = request.arrived;
    if (request.output_tokens == 0) continue;
    ttft.push_back(1e3 * Ttft(request));
    e2e.push_back(1e3 * E2e(request));
    if (request.output_tokens > 1) tpot.push_back(1e3 * Tpot(request));
    last = std::max(last, request.last_token);
    tokens += request.output_tokens;
    if (slo && Keeps(request, *slo)) ++good;
  }
  figures.completed = static_cast<int64_t>(e2e.size());
  figures.refused = came - figures.completed;
  figures.duration_s = std::max(0.0, last - first);
  const auto per_second = [&](double count) {
    return figures.duration_s > 0 ? count / figures.duration_s : 0;
  };
  figures.request_throughput = per_second(static_cast<double>(figures.completed));
  figures.output_throughput = per_second(tokens);
  if (slo) {
    figures.goodput = per_second(static_cast<double>(good));
    figures.goodput_share = came > 0 ? static_cast<double>(good) / static_cast<double>(came) : 0;
  }
  figures.ttft_at_ms = AtShares(ttft);
  figures.tpot_at_ms = AtShares(tpot);
  figures.e2e_at_ms = AtShares(e2e);
  figures.ttft_ms = bench::Summarize(std::move(ttft), 1);
  figures.tpot_ms = bench::Summarize(std::move(tpot), 1);
  figures.e2e_ms = bench::Summarize(std::move(e2e), 1);
  figures.waiting =
      WaitingOverTime(outcome.requests, base::Seconds(outcome.span), outcome.kv_use.size(), last);
  const double wasted = static_cast<double>(outcome.tokens_fed_again + outcome.rows_discarded);
  figures.wasted_share =
      outcome.tokens_fed > 0 ? wasted / static_cast<double>(outcome.tokens_fed) : 0;
  figures.cached_share =
      outcome.prefix_queries > 0
          ? static_cast<double>(outcome.prefix_hits) / static_cast<double>(outcome.prefix_queries)
          : 0;
  outcome.requests = {};
  figures.cluster = std::move(outcome);
  return figures;
}

absl::Status NobodyCounted() {
  return UsageError("--warmup", "no request came after it, expected at least one",
                    "less of it, or more --requests");
}

nlohmann::ordered_json ResultJson(const nlohmann::ordered_json& setup,
                                  const std::vector<PolicyResult>& results) {
  Json policies = Json::array();
  for (const PolicyResult& result : results) {
    Json runs = Json::array();
    for (size_t i = 0; i < result.runs.size(); ++i) {
      runs.push_back(RunJson(result.seeds[i], result.runs[i]));
    }
    policies.push_back({{"policy", result.policy},
                        {"routing", result.routing},
                        {"predictor", result.predictor},
                        {"runs", std::move(runs)}});
  }
  return {{"schema", "baton.sim/1"},
          {"setup", setup},
          {"shares", kShares},
          {"policies", std::move(policies)}};
}

std::string ResultTable(const std::vector<PolicyResult>& results) {
  constexpr size_t kName = 22, kCell = 18;
  std::string table = Padded("", kName);
  for (const PolicyResult& result : results) table += Padded(NameOf(result, results), kCell);
  table.erase(table.find_last_not_of(' ') + 1);
  table += "\n";
  for (const Column& column : Columns(results.front().runs.front().goodput.has_value())) {
    table += Padded(column.name, kName);
    for (const PolicyResult& result : results) {
      table += Padded(Cell(result.runs, column.number), kCell);
    }
    table.erase(table.find_last_not_of(' ') + 1);
    table += "\n";
  }
  return table;
}

}  // namespace baton::simulator
