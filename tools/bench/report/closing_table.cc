#include "tools/bench/report/closing_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/bench/report/table_text.h"

namespace baton::bench {
namespace {

struct Line {
  const char* name;
  Summary Figures::*summary;
};

constexpr Line kFirstTokenSplit[] = {{"queue", &Figures::queue_ms},
                                     {"prefill", &Figures::prefill_ms},
                                     {"rest", &Figures::ttft_rest_ms},
                                     {"network", &Figures::network_ms}};
constexpr Line kSecondTokenSplit[] = {{"KV transfer", &Figures::kv_transfer_ms},
                                      {"first decode", &Figures::first_decode_ms}};

// The median of the runs and where they lie: "12.3 (12.1 to 12.9)".
std::string Spread(const Runs& runs, double Figures::*number) {
  std::vector<double> values;
  for (const RunResult* run : runs) values.push_back(run->figures.*number);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  if (values.size() == 1) return Short(values.front());
  const std::string range = absl::StrCat(" (", Short(*low), " to ", Short(*high), ")");
  return Short(Median(values)) + range;
}

std::string Throughputs(const Runs& runs) {
  return absl::StrCat("requests/s ", Spread(runs, &Figures::request_throughput),
                      "   output tokens/s ", Spread(runs, &Figures::output_throughput),
                      "   total tokens/s ", Spread(runs, &Figures::total_token_throughput), "\n",
                      "under way: mean ", Spread(runs, &Figures::mean_concurrency), ", peak ",
                      Spread(runs, &Figures::peak_concurrency), "\n");
}

// The means of what the time called `what` is made of; empty where the server does not say.
std::string Split(const Runs& runs, const char* what, std::span<const Line> lines) {
  std::string text;
  for (const Line& line : lines) {
    const bool known = std::any_of(runs.begin(), runs.end(), [&](const RunResult* run) {
      return (run->figures.*line.summary).count > 0;
    });
    if (!known) continue;
    const double mean = Middle(runs, [&](const Figures& f) { return (f.*line.summary).mean; });
    absl::StrAppend(&text, text.empty() ? "" : ", ", line.name, " ", Short(mean));
  }
  return text.empty() ? "" : absl::StrCat(what, ", mean ms: ", text, "\n");
}

std::string Counted(const std::map<std::string, int64_t>& counts) {
  std::string text;
  for (const auto& [what, count] : counts) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", count, " ", what);
  }
  return text;
}

// What is added up over the runs.
struct Endings {
  std::map<std::string, int64_t> reasons;
  std::map<std::string, int64_t> errors;
  int64_t requests = 0;
  int64_t completed = 0;
  int64_t failed = 0;
  int64_t extra_attempts = 0;
  int64_t natural = 0;
};

Endings EndingsOf(const Runs& runs) {
  Endings sum;
  for (const RunResult* run : runs) {
    const Figures& figures = run->whole_run;
    for (const auto& [reason, count] : figures.finish_reasons) sum.reasons[reason] += count;
    for (const auto& [error, count] : figures.errors) sum.errors[error] += count;
    sum.requests += figures.requests;
    sum.completed += figures.completed;
    sum.failed += figures.failed;
    sum.extra_attempts += figures.extra_attempts;
    sum.natural += figures.natural_end_step.count;
  }
  return sum;
}

std::string HowTheyEnded(const Runs& runs) {
  const Endings sum = EndingsOf(runs);
  std::string text = absl::StrCat(sum.completed, " of ", sum.requests, " requests completed");
  if (!sum.reasons.empty()) absl::StrAppend(&text, ": ", Counted(sum.reasons));
  if (sum.extra_attempts > 0) absl::StrAppend(&text, "; ", sum.extra_attempts, " extra attempts");
  text += "\n";
  if (runs.front()->eos != EosMode::kHonor) {
    absl::StrAppendFormat(
        &text, "forced lengths: %d would have ended by themselves, %.1f %% of tokens came after\n",
        sum.natural,
        100 * Middle(runs, [](const Figures& f) { return f.tokens_after_natural_end_share; }));
  }
  for (const auto& [error, count] : sum.errors) {
    absl::StrAppend(&text, "failed: ", count, " x ", error, "\n");
  }
  return text;
}

// A number of one target's /metrics, e.g. At(target, "peaks", "resident_bytes").
std::optional<double> At(const nlohmann::ordered_json& target, const char* kind, const char* name) {
  const auto group = target.find(kind);
  if (group == target.end() || !group->contains(name)) return std::nullopt;
  return (*group)[name].get<double>();
}

// What a peak of readings is worth: "in 12 readings, 1 s apart".
std::string Readings(const nlohmann::ordered_json& target, double interval_s) {
  const int64_t read = target.value("scrapes", 0) - target.value("failed_scrapes", 0);
  return absl::StrFormat("in %d readings, %g s apart", read, interval_s);
}

std::string TargetText(const nlohmann::ordered_json& target, double interval_s) {
  const std::string role = target.value("role", "");
  std::string text = role.empty() ? target.value("address", "") : role;
  if (const auto usage = At(target, "peaks", "kv_usage")) {
    absl::StrAppendFormat(&text, " peak KV use %.1f %% (%s),", 100 * *usage,
                          Readings(target, interval_s));
  }
  if (const auto count = At(target, "increase", "preemptions")) {
    absl::StrAppendFormat(&text, " %.0f preemptions,", *count);
  }
  if (const auto bytes = At(target, "peaks", "resident_bytes")) {
    absl::StrAppendFormat(&text, " %.0f MB", *bytes / 1e6);
  }
  if (text.ends_with(',')) text.pop_back();
  if (!target.value("answering", true)) {
    const bool ever = target.value("scrapes", 0) > target.value("failed_scrapes", 0);
    text += ever ? " (no longer answers)" : " (never answered)";
  }
  return text;
}

// What /metrics said in the last run, where it was read.
std::string ServerSide(const Runs& runs) {
  const nlohmann::ordered_json& metrics = runs.back()->server_metrics;
  if (!metrics.is_object() || !metrics.contains("targets")) return "";
  std::string text;
  const double interval_s = metrics.value("interval_s", 1.0);
  for (const auto& target : metrics["targets"]) {
    text += "server: " + TargetText(target, interval_s) + "\n";
  }
  return text;
}

std::string PrefixCaches(const Runs& runs) {
  int64_t cached = 0;
  int64_t prompt = 0;
  for (const RunResult* run : runs) {
    cached += run->figures.cached_tokens;
    prompt += run->figures.prompt_tokens;
  }
  if (cached == 0) return "";
  return absl::StrFormat("%.1f %% of the prompt tokens came from prefix caches\n",
                         100.0 * static_cast<double>(cached) / static_cast<double>(prompt));
}

std::string AgainstSlo(const Runs& runs, const std::optional<Slo>& slo) {
  if (!slo) return "";
  std::string text =
      absl::StrFormat("SLO %s: goodput %s requests/s, %.2f %% of requests\n", SloText(*slo),
                      Spread(runs, &Figures::request_goodput),
                      100 * Middle(runs, [](const Figures& f) { return f.goodput_share; }));
  for (size_t i = 0; i < slo->limits.size(); ++i) {
    SloCount sum = {.limit = slo->limits[i]};
    for (const RunResult* run : runs) {
      if (i >= run->figures.slo.size()) continue;
      sum.samples += run->figures.slo[i].samples;
      sum.violations += run->figures.slo[i].violations;
    }
    absl::StrAppend(&text, "  ", std::string(SloMetricName(sum.limit.metric)), " over ",
                    Short(sum.limit.limit_ms), " ms: ", sum.violations, " of ", sum.samples, "\n");
  }
  return text;
}

// What a reader must know before believing the figures.
std::string Warnings(const Runs& runs) {
  std::string text;
  for (const RunResult* run : runs) {
    const auto warn = [&](const std::string& what) {
      absl::StrAppend(&text, "! ", run->label, ": ", what, "\n");
    };
    if (!run->void_reason.empty()) warn("void, " + run->void_reason);
    if (!run->partial_reason.empty()) warn("partial, " + run->partial_reason);
    if (run->client_limited) {
      warn(
          absl::StrFormat("client_limited: this program sent late (lag over %g ms at P99); the "
                          "server was asked for less than planned",
                          kClientLimitedLagMs));
    }
    if (run->saturation.saturated) {
      warn("the server was over its capacity: requests under way and TTFT kept rising");
    }
    const bool at_once = run->rate && std::isinf(*run->rate);
    if (run->figures.window.whole_run && !at_once) warn("too short to leave ramp and drain out");
  }
  return text;
}

std::string LagOf(const Runs& runs) {
  std::vector<double> lag;
  for (const RunResult* run : runs) {
    lag.insert(lag.end(), run->load.lag_ms.begin(), run->load.lag_ms.end());
  }
  return absl::StrCat("lag of this program: p99 ", Short(LagP99(lag)), " ms\n");
}

std::string TableOf(const Runs& runs, const std::optional<Slo>& slo) {
  return absl::StrCat(LatencyTable(runs), Throughputs(runs), Split(runs, "TTFT", kFirstTokenSplit),
                      Split(runs, "between first and second token", kSecondTokenSplit),
                      HowTheyEnded(runs), PrefixCaches(runs), ServerSide(runs),
                      AgainstSlo(runs, slo), LagOf(runs), Warnings(runs));
}

}  // namespace

std::string ClosingTable(const BenchResult& result) {
  const Runs honor = NaturalRuns(result);
  const Runs forced = ForcedRuns(result);
  const bool both = !honor.empty() && !forced.empty();
  std::string text;
  if (!honor.empty()) text += (both ? "natural ends\n" : "") + TableOf(honor, result.slo);
  if (!forced.empty()) text += (both ? "\nforced lengths\n" : "") + TableOf(forced, result.slo);
  if (both) text += "\n" + EosComparison(result);
  return text;
}

}  // namespace baton::bench
