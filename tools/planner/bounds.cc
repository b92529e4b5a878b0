#include "tools/planner/bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/str_format.h"

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

// The share of a run's requests that would keep every limit if each were alone.
double ShareAlone(const Question& question, const simulator::StepCost& cost) {
  const double ttft = LimitOf(question.slo, bench::SloMetric::kTtft);
  const double tpot = LimitOf(question.slo, bench::SloMetric::kTpot);
  const double e2e = LimitOf(question.slo, bench::SloMetric::kE2e);
  const bool cached = question.facts.prompt_tokens < question.facts.input_tokens;
  double kept = 0, all = 0;
  for (const simulator::SimRequest& request : question.runs.front().requests) {
    const double input = cached ? 1 : request.input_tokens;
    const double output = request.output_tokens;
    const double first = kMilli * PromptTime(cost, input, input * (input + 1) / 2,
                                             question.model.max_prefill_tokens);
    const double context = request.input_tokens + output / 2;
    const double next = kMilli * (cost.step + cost.row + cost.kv_token * context);
    const bool keeps =
        first <= ttft && (output < 2 || next <= tpot) && first + (output - 1) * next <= e2e;
    kept += keeps ? 1 : 0;
    ++all;
  }
  return all > 0 ? kept / all : 1;
}

// Sequences that a worker's cache holds when all are of mean length.
double SequencesThatFit(const Question& question, const WorkerBuild& build) {
  return build.kv_bytes_most / build.kv_bytes_per_token / question.facts.length;
}

int32_t LargestBatch(const Question& question, const WorkerBuild& build) {
  const simulator::StepCost& cost = build.cost;
  const double each = cost.row + cost.kv_token * question.facts.length;
  const double tpot = LimitOf(question.slo, bench::SloMetric::kTpot) / kMilli;
  const double by_tpot = each > 0 ? (tpot - cost.step) / each : kMostSequences;
  const double most =
      std::min({by_tpot, SequencesThatFit(question, build), double{kMostSequences}});
  return std::max(1, static_cast<int32_t>(most));
}

int32_t AtLeastOne(double workers) {
  return std::max(1, static_cast<int32_t>(std::ceil(std::min(workers, 1e6))));
}

std::string WhyImpossible(const Question& question, const WorkerBuild& build,
                          const Bounds& bounds) {
  const double longest = question.facts.longest;
  const double fits = build.kv_bytes_most / build.kv_bytes_per_token;
  if (longest + question.model.block_size > fits) {
    return absl::StrFormat("the longest request has %.0f tokens, a worker's KV cache %.0f", longest,
                           fits);
  }
  const double share = ShareAlone(question, build.cost);
  if (share >= question.slo.percentile / 100) return "";
  return absl::StrFormat(
      "even alone only %.4g %% of the requests would keep the SLO (mean TTFT %.4g ms, mean TPOT "
      "%.4g ms)",
      100 * share, bounds.ttft_ms, bounds.tpot_ms);
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
  bounds.impossible = WhyImpossible(question, build, bounds);
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
  const double writing =
      rows * (cost.step / bounds.batch + cost.row) + cost.kv_token * facts.kv_tokens;
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
