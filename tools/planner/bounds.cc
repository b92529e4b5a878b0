#include "tools/planner/bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/bench/figures/statistics.h"

namespace baton::planner {
namespace {

constexpr double kMilli = 1e-3;  // ms in a microsecond

// The time of a prompt that meets nobody, steps of at most `chunk` tokens, in microseconds.
double PromptTime(const simulator::StepCost& cost, double tokens, double products, int32_t chunk) {
  return std::ceil(tokens / chunk) * cost.step + cost.prompt_token * tokens +
         cost.product * products;
}

double LimitOf(const bench::Slo& slo, bench::SloMetric metric) {
  for (const bench::SloLimit& limit : slo.limits) {
    if (limit.metric == metric) return limit.limit_ms;
  }
  return std::numeric_limits<double>::infinity();
}

// What requests would see of each limit if they were alone.
struct Alone {
  double share = 1;                          // of requests that keep all limits
  std::vector<std::vector<double>> seen_ms;  // by limit
};

Alone SeenAlone(const Question& question, const simulator::StepCost& cost) {
  const bool cached = question.facts.prompt_tokens < question.facts.input_tokens;
  Alone alone{.seen_ms = std::vector<std::vector<double>>(question.slo.limits.size())};
  double kept = 0;
  const std::vector<simulator::SimRequest>& requests = question.runs.front().requests;
  for (const simulator::SimRequest& request : requests) {
    const double input = cached ? 1 : request.input_tokens;
    const double rest = request.output_tokens - 1;
    const double first = kMilli * PromptTime(cost, input, input * (input + 1) / 2,
                                             question.model.max_prefill_tokens);
    const double context = request.input_tokens + rest / 2;
    const double next = kMilli * (cost.step + cost.row + cost.kv_token * context);
    bool keeps = true;
    for (size_t i = 0; i < question.slo.limits.size(); ++i) {
      const bench::SloLimit& limit = question.slo.limits[i];
      const double value = limit.metric == bench::SloMetric::kTtft   ? first
                           : limit.metric == bench::SloMetric::kTpot ? (rest > 0 ? next : 0)
                                                                     : first + rest * next;
      alone.seen_ms[i].push_back(value);
      keeps = keeps && value <= limit.limit_ms;
    }
    kept += keeps ? 1 : 0;
  }
  alone.share = requests.empty() ? 1 : kept / static_cast<double>(requests.size());
  return alone;
}

// Sequences that a worker's cache holds when all are of mean length.
double SequencesThatFit(const Question& question, const WorkerBuild& build) {
  return build.kv_bytes_most / build.kv_bytes_per_token / question.facts.length;
}

int32_t LargestBatch(const Question& question, const WorkerBuild& build) {
  const simulator::StepCost& cost = build.cost;
  const double tpot = LimitOf(question.slo, bench::SloMetric::kTpot) / kMilli;
  const double fit = std::min(SequencesThatFit(question, build), double{kMostSequences});
  int32_t batch = 1;
  for (int32_t rows = 2; rows <= fit; ++rows) {
    const simulator::StepWork work = {.rows = 1.0 * rows,
                                      .kv_tokens = rows * question.facts.length};
    if (cost.Microseconds(work) > tpot) break;
    batch = rows;
  }
  return batch;
}

// The least that a row takes of a step of at most so many, but for the KV that it reads: more rows
// share the step's fixed part, until they cost more than that saves.
double LeastPerRow(const simulator::StepCost& cost, int32_t batch) {
  double least = cost.step + cost.Rows(1);
  for (int32_t rows = 2; rows <= batch; ++rows) {
    least = std::min(least, (cost.step + cost.Rows(rows)) / rows);
  }
  return least;
}

int32_t AtLeastOne(double workers) {
  return std::max(1, static_cast<int32_t>(std::ceil(std::min(workers, 1e6))));
}

std::string WhyImpossible(const Question& question, const WorkerBuild& build) {
  const double longest = question.facts.longest;
  const double fits = build.kv_bytes_most / build.kv_bytes_per_token;
  if (longest + question.model.block_size > fits) {
    return absl::StrFormat("the longest request has %.0f tokens, a worker's KV cache %.0f", longest,
                           fits);
  }
  Alone alone = SeenAlone(question, build.cost);
  if (alone.share >= question.slo.percentile / 100) return "";
  std::vector<std::string> would;
  for (size_t i = 0; i < alone.seen_ms.size(); ++i) {
    const bench::SloLimit& limit = question.slo.limits[i];
    std::ranges::sort(alone.seen_ms[i]);
    const double seen = bench::PercentileOfSorted(alone.seen_ms[i], question.slo.percentile);
    would.push_back(absl::StrFormat("%s=%.4gms", std::string(bench::SloMetricName(limit.metric)),
                                    std::max(seen, limit.limit_ms)));
  }
  return absl::StrFormat(
      "even a request that meets nobody keeps the SLO in %.4g %% of the cases only; %s would be "
      "kept",
      100 * alone.share, absl::StrJoin(would, ","));
}

}  // namespace

Bounds BoundsOf(const Question& question, const WorkerBuild& build) {
  const LoadFacts& facts = question.facts;
  const simulator::StepCost& cost = build.cost;
  Bounds bounds;
  const double prompt =
      PromptTime(cost, facts.prompt_tokens, facts.products, question.model.max_prefill_tokens);
  const double alone = cost.step + cost.row + cost.kv_token * facts.length;
  bounds.ttft_ms = kMilli * prompt;
  bounds.tpot_ms = kMilli * alone;
  bounds.impossible = WhyImpossible(question, build);
  bounds.batch = LargestBatch(question, build);
  // In a closed loop users bring as much as is served, so only places bound the number.
  if (facts.rate <= 0) {
    const double cached = std::ceil(facts.concurrency / SequencesThatFit(question, build));
    bounds.unified = bounds.decode = AtLeastOne(cached);
    return bounds;
  }
  // A step of a prompt may serve rows and other prompts, too, so its fixed part is not counted
  // here.
  const double reading = cost.prompt_token * facts.prompt_tokens + cost.product * facts.products;
  const double rows = std::max(0.0, facts.output_tokens - 1);
  const double writing = rows * LeastPerRow(cost, bounds.batch) + cost.kv_token * facts.kv_tokens;
  bounds.prefill_share = facts.rate * reading / 1e6;
  bounds.decode_share = facts.rate * writing / 1e6;
  // By Little's law so many are under way at least, and each holds its cache.
  const double running = facts.rate * rows * alone / 1e6;
  const double held = running / SequencesThatFit(question, build);
  bounds.unified = AtLeastOne(std::max(bounds.prefill_share + bounds.decode_share, held));
  bounds.prefill = AtLeastOne(bounds.prefill_share);
  bounds.decode = AtLeastOne(std::max(bounds.decode_share, held));
  return bounds;
}

}  // namespace baton::planner
