#include "tools/bench/bench_runs.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "tools/bench/report/closing_table.h"

namespace baton::bench {
namespace {

constexpr int64_t kDefaultRequests = 200;
constexpr int64_t kDefaultPerPlace = 4;  // of a closed loop

std::vector<EosMode> ModesOf(const BenchFlags& flags) {
  switch (flags.eos) {
    case EosChoice::kHonor:
      return {EosMode::kHonor};
    case EosChoice::kMask:
      return {EosMode::kMask};
    case EosChoice::kContinue:
      return {EosMode::kContinue};
    case EosChoice::kBoth:
      return {EosMode::kHonor,
              flags.protocol == Protocol::kOpenAi ? EosMode::kContinue : EosMode::kMask};
  }
  return {};
}

int64_t RequestsOf(const BenchFlags& flags) {
  if (flags.requests) return *flags.requests;
  const bool limited = flags.duration > base::Duration::zero();
  if (limited || !flags.trace.empty() || !flags.prompts.empty()) return 0;
  return std::max(kDefaultRequests, kDefaultPerPlace * flags.concurrency.value_or(0));
}

RunSpec SpecOf(const BenchFlags& flags, EosMode mode, int run) {
  RunSpec spec;
  spec.label = absl::StrCat("run ", run + 1, " of ", flags.runs);
  if (flags.eos == EosChoice::kBoth) {
    absl::StrAppend(&spec.label, mode == EosMode::kHonor ? ", natural" : ", forced");
  }
  spec.eos = mode;
  spec.seed = static_cast<uint64_t>(flags.seed) + static_cast<uint64_t>(run);
  spec.rate = flags.rate;
  spec.concurrency = flags.concurrency;
  spec.requests = RequestsOf(flags);
  spec.duration = flags.duration;
  return spec;
}

// A run of the search: a value that is tried, in the unit of its kind.
RunSpec SpecOf(const BenchFlags& flags, EosMode mode, const PointRequest& point) {
  RunSpec spec;
  const bool rate = flags.find_max == SearchKind::kRate;
  spec.label = rate ? absl::StrFormat("%.6g requests/s", point.value)
                    : absl::StrFormat("%.0f under way", point.value);
  if (point.run > 0) absl::StrAppend(&spec.label, ", once more");
  spec.eos = mode;
  spec.seed = point.seed;
  if (rate) {
    spec.rate = point.value;
  } else {
    spec.concurrency = static_cast<int32_t>(point.value);
  }
  spec.requests = point.requests;
  return spec;
}

}  // namespace

absl::Status MakeRuns(const BenchFlags& flags, BenchSession* session, RowsFile* rows,
                      BenchResult* result) {
  for (int run = 0; run < flags.runs; ++run) {
    for (const EosMode mode : ModesOf(flags)) {
      if (session->stopped()) {
        result->partial_reason = absl::StrCat("interrupted before run ", run + 1);
        return absl::OkStatus();
      }
      BATON_ASSIGN_OR_RETURN(RunResult made, session->Run(SpecOf(flags, mode, run)));
      const bool useless = !made.partial_reason.empty() || !made.void_reason.empty();
      result->runs.push_back(std::move(made));
      const RunResult& kept = result->runs.back();
      if (!kept.partial_reason.empty()) {
        result->partial_reason = absl::StrCat(kept.label, ": ", kept.partial_reason);
      }
      if (rows != nullptr) BATON_RETURN_IF_ERROR(rows->Append(kept.load, kept.label));
      if (useless) return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

absl::Status MakeSearch(const BenchFlags& flags, BenchSession* session, RowsFile* rows,
                        const std::function<void(const SearchPoint&)>& on_point,
                        BenchResult* result) {
  const EosMode mode = ModesOf(flags).front();
  const bool rate = flags.find_max == SearchKind::kRate;
  FindMaxOptions options;
  options.variable = rate ? SearchFor::kRate : SearchFor::kConcurrency;
  options.slo = *session->slo();
  options.eos = mode;
  options.start = rate ? flags.rate.value_or(1) : flags.concurrency.value_or(1);
  options.upper_limit = rate ? 1e5 : 65536;
  options.warmup_s = base::Seconds(flags.warmup);
  options.seed = static_cast<uint64_t>(flags.seed);
  BATON_ASSIGN_OR_RETURN(options.most_per_run, session->MostRequestsOfARun());
  RunResult latest;
  std::map<double, RunResult> accepted;  // by value: which one is the best is known in the end
  const auto point = [&](const PointRequest& asked) -> absl::StatusOr<LoadResult> {
    BATON_ASSIGN_OR_RETURN(latest, session->Run(SpecOf(flags, mode, asked)));
    if (rows != nullptr) BATON_RETURN_IF_ERROR(rows->Append(latest.load, latest.label));
    return latest.load;
  };
  const auto judged = [&](const SearchPoint& tried) {
    if (tried.accepted) accepted[tried.value] = std::move(latest);
    if (on_point) on_point(tried);
  };
  result->find_max_variable = options.variable;
  result->find_max = FindMax(options, point, judged);
  const auto& best = result->find_max->best;
  if (best && accepted.contains(*best)) result->runs.push_back(std::move(accepted[*best]));
  if (!result->find_max->complete()) {
    result->partial_reason = SearchAnswer(*result->find_max, options.variable);
  }
  return result->find_max->status;
}

}  // namespace baton::bench
