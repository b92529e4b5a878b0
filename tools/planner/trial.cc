#include "tools/planner/trial.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "common/base/status.h"
#include "tools/bench/figures/statistics.h"
#include "tools/sim/answers.h"
#include "tools/sim/cluster.h"

namespace baton::planner {
namespace {

constexpr double kMebibyte = 1 << 20;
// Requests that wait at the router beyond this are an overload, whatever else.
constexpr int32_t kMostWaiting = 4096;

double ValueMs(const simulator::RequestOutcome& request, bench::SloMetric metric) {
  const double first = request.first_token - request.arrived;
  const double rest = request.last_token - request.first_token;
  if (metric == bench::SloMetric::kTtft) return 1e3 * first;
  if (metric == bench::SloMetric::kE2e) return 1e3 * (first + rest);
  return request.output_tokens < 2 ? 0 : 1e3 * rest / (request.output_tokens - 1);
}

// Takes the worse of what was known and what this run says.
void Judge(const Question& question, const simulator::ClusterOutcome& outcome, Trial* trial) {
  const double warmup = base::Seconds(question.warmup);
  for (LimitKept& kept : trial->limits) {
    std::vector<double> values;
    double refused = 0, good = 0;
    for (const simulator::RequestOutcome& request : outcome.requests) {
      if (request.arrived < warmup) continue;
      if (request.output_tokens == 0) {
        ++refused;
        continue;
      }
      values.push_back(ValueMs(request, kept.limit.metric));
      if (values.back() <= kept.limit.limit_ms) ++good;
    }
    std::ranges::sort(values);
    kept.at_percentile_ms =
        std::max(kept.at_percentile_ms, bench::PercentileOfSorted(values, question.slo.percentile));
    const double came = refused + static_cast<double>(values.size());
    if (came > 0) kept.share = std::min(kept.share, good / came);
  }
}

simulator::ClusterSetup SetupOf(const Question& question, const Candidate& candidate,
                                int64_t kv_tokens) {
  const WorkerBuild& build = *candidate.build;
  simulator::ClusterSetup setup;
  setup.workers = candidate.decode;
  setup.prefill_workers = candidate.prefill;
  setup.message =
      build.message_ms ? base::Duration(std::llround(1e6 * *build.message_ms)) : question.message;
  setup.handoff_bytes_per_s = question.handoff_bytes_per_s;
  setup.kv_bytes_per_token = build.handoff_bytes_per_token;
  setup.max_num_queued_reqs = kMostWaiting;
  setup.concurrency = question.facts.concurrency;
  setup.arrivals_end = question.arrivals_end;
  setup.shared_prefix_tokens = question.shared_prefix_tokens;
  setup.block_tokens = question.block_tokens;
  setup.worker.cost = build.cost;
  setup.worker.num_blocks = static_cast<int32_t>(kv_tokens / question.model.block_size);
  setup.worker.forced_lengths = question.forced_lengths;
  SchedulerOptions& scheduler = setup.worker.scheduler;
  scheduler.limits = {.max_model_len = question.max_model_len,
                      .pool_tokens = setup.worker.num_blocks * question.model.block_size,
                      .vocab_size = simulator::kVocabulary};
  scheduler.block_size = question.model.block_size;
  scheduler.max_num_seqs = candidate.max_num_seqs;
  scheduler.max_prefill_tokens = question.model.max_prefill_tokens;
  scheduler.max_num_batched_tokens = question.model.max_num_batched_tokens;
  scheduler.max_steps_in_flight = question.two_steps ? 2 : 1;
  scheduler.eos_ids = {simulator::kEosToken};
  return setup;
}

}  // namespace

double Trial::Mean(double (*figure)(const simulator::SimFigures&)) const {
  double sum = 0;
  for (const simulator::SimFigures& run : runs) sum += figure(run);
  return sum / static_cast<double>(std::max<size_t>(1, runs.size()));
}

const LimitKept& Trial::tightest() const {
  return *std::ranges::max_element(limits, {}, &LimitKept::used);
}

double KvBytesOf(const Question& question, const Candidate& candidate) {
  const WorkerBuild& build = *candidate.build;
  double bytes = build.kv_bytes_most;
  if (build.threads > 0) {
    const double block = question.model.block_size;
    const double longest = block * std::ceil((question.facts.longest + block) / block);
    const double wanted = candidate.max_num_seqs * longest * build.kv_bytes_per_token;
    bytes = std::min(bytes, kMebibyte * std::ceil(wanted / kMebibyte));
  }
  return kMebibyte * std::floor(bytes / kMebibyte);
}

absl::StatusOr<Trial> Try(const Question& question, const Candidate& candidate, size_t runs) {
  Trial trial{.candidate = candidate};
  trial.kv_bytes = KvBytesOf(question, candidate);
  // Block numbers are of 32 bits.
  trial.kv_tokens =
      static_cast<int64_t>(std::min(trial.kv_bytes / candidate.build->kv_bytes_per_token, 1e9));
  for (const bench::SloLimit& limit : question.slo.limits) trial.limits.push_back({.limit = limit});
  simulator::ClusterSetup setup = SetupOf(question, candidate, trial.kv_tokens);
  for (size_t run = 0; run < std::min(runs, question.runs.size()); ++run) {
    setup.seed = question.first_seed + run;
    BATON_ASSIGN_OR_RETURN(auto outcome, simulator::RunCluster(setup, question.runs[run].requests));
    Judge(question, outcome, &trial);
    trial.runs.push_back(simulator::FiguresOf(std::move(outcome), question.warmup, question.slo));
    if (!simulator::AnyCounted(trial.runs.back())) return simulator::NobodyCounted();
    trial.good_share = std::min(trial.good_share, trial.runs.back().goodput_share.value_or(0));
    trial.keeps = trial.good_share >= question.slo.percentile / 100;
    if (!trial.keeps) break;
  }
  return trial;
}

}  // namespace baton::planner
