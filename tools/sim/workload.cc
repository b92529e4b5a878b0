#include "tools/sim/workload.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/eos/log_parts.h"
#include "tools/bench/plan/draws.h"
#include "tools/bench/plan/length_distribution.h"
#include "tools/bench/plan/plan_lengths.h"
#include "tools/eos/row_source.h"
#include "tools/sim/recorded_sampling.h"

namespace baton::simulator {
namespace {

using Recorded = std::vector<RecordedToken>;

RecordedToken TokenOf(const EosLogRow& row) {
  RecordedToken recorded{.token = row.token, .signal = {}};
  recorded.signal.eos_logprob =
      static_cast<float>(row.eos_logprob.value_or(std::numeric_limits<double>::quiet_NaN()));
  recorded.signal.eos_prob_sampling = static_cast<float>(row.eos_prob_sampling.value_or(0));
  recorded.signal.eos_rank = row.eos_rank.value_or(0);
  recorded.signal.entropy = static_cast<float>(row.entropy.value_or(0));
  recorded.signal.top1_prob = static_cast<float>(row.top1_prob.value_or(0));
  return recorded;
}

// At which step the model ended the answer; 0: that is not known.
int32_t NaturalEnd(const EosLogRow& last) {
  if (last.finish_reason == FinishReason::kStopEos) return last.step;
  return last.natural_end_step.value_or(0);
}

// The answers of one log, as its rows come.
class AnswersOfLog final {
 public:
  void Take(const EosLogRow& row) {
    const std::pair answer(row.request_id, row.index);
    if (row.step == 1) open_[answer] = {.number = ++begun_, .recorded = {}};
    const auto found = open_.find(answer);
    // A log that begins in the middle of an answer does not say how it began.
    if (found == open_.end()) return;
    Recorded& recorded = found->second.recorded;
    if (static_cast<size_t>(row.step) == recorded.size() + 1) recorded.push_back(TokenOf(row));
    if (!row.is_finished) return;
    End(row, std::move(found->second));
    open_.erase(found);
  }

  void MoveTo(const RecordedSampling& sampling, RecordedAnswers* answers) {
    answers->censored += censored_;
    for (auto& [number, ended] : ended_) {
      const auto known = sampling.Of(ended.request_id);
      ended.request.sampling = known.value_or(AnswerSampling());
      if (!known) ++answers->sampling_unknown;
      answers->requests.push_back(std::move(ended.request));
    }
  }

 private:
  // An answer that is not over yet: it began as the `number`th.
  struct Begun {
    int64_t number = 0;
    Recorded recorded;
  };
  struct Ended {
    std::string request_id;
    SimRequest request;
  };

  void End(const EosLogRow& last, Begun begun) {
    const int32_t end = NaturalEnd(last);
    if (end < 1 || static_cast<size_t>(end) > begun.recorded.size()) {
      ++censored_;
      return;
    }
    begun.recorded.resize(static_cast<size_t>(end));
    ended_[begun.number] = {
        .request_id = last.request_id,
        .request = {.at = {},
                    .input_tokens = std::max(1, last.prompt_length),
                    .output_tokens = end,
                    .hash_ids = {},
                    .recorded = std::make_shared<const Recorded>(std::move(begun.recorded))}};
  }

  std::map<std::pair<std::string, int32_t>, Begun> open_;  // by the request's id and the index
  std::map<int64_t, Ended> ended_;                         // by their numbers
  int64_t begun_ = 0, censored_ = 0;
};

absl::Status ReadLog(const LogFiles& log, RecordedAnswers* answers) {
  BATON_ASSIGN_OR_RETURN(RowSource source, RowSource::Open(log));
  AnswersOfLog of_log;
  EosLogRow row;
  while (true) {
    BATON_ASSIGN_OR_RETURN(const RowSource::Got got, source.Next(&row));
    if (got == RowSource::Got::kEnd) break;
    if (got == RowSource::Got::kNoRow) {
      return absl::InvalidArgumentError(
          absl::StrCat(source.Place(), ": ", source.problem(), "; baton eos validate says more"));
    }
    of_log.Take(row);
  }
  // Behind the rows, so that all that they show to be over have their summaries.
  BATON_ASSIGN_OR_RETURN(const RecordedSampling sampling, RecordedSampling::Read(log));
  of_log.MoveTo(sampling, answers);
  return absl::OkStatus();
}

// The numbers below `count` in an order drawn from the seed.
std::vector<size_t> AnswerOrder(size_t count, uint64_t seed) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  bench::Draws draws(seed, bench::Purpose::kAnswerOrder);
  for (size_t left = count; left > 1; --left) {
    std::swap(order[left - 1], order[draws.Below(static_cast<uint32_t>(left))]);
  }
  return order;
}

}  // namespace

absl::StatusOr<Workload> PlannedWorkload(const bench::PlanOptions& plan) {
  bench::PlanSummary summary;
  BATON_ASSIGN_OR_RETURN(auto lengths, bench::PlanLengths(plan, {}, &summary));
  Workload workload;
  workload.shortened = summary.clamped;
  workload.filled_by_prefix = summary.filled_by_prefix;
  workload.may_run_out = summary.may_run_out;
  workload.requests.reserve(lengths.size());
  for (bench::PlannedLength& length : lengths) {
    workload.requests.push_back({.at = length.at,
                                 .input_tokens = length.input_tokens,
                                 .output_tokens = length.output_tokens,
                                 .hash_ids = std::move(length.hash_ids),
                                 .recorded = nullptr});
  }
  return workload;
}

void SharePrefixes(const PrefixShare& share, uint64_t seed, std::vector<SimRequest>* requests) {
  std::vector<double> up_to;  // the sum of the weights so far
  for (int32_t k = 1; k <= share.count; ++k) {
    up_to.push_back((up_to.empty() ? 0 : up_to.back()) + std::pow(k, -share.skew));
  }
  bench::Draws draws(seed, bench::Purpose::kPrefixChoice);
  for (SimRequest& request : *requests) {
    const auto found = std::ranges::upper_bound(up_to, draws.Uniform() * up_to.back());
    const auto last = static_cast<std::ptrdiff_t>(up_to.size()) - 1;
    request.hash_ids = {static_cast<uint64_t>(std::min(found - up_to.begin(), last))};
  }
}

absl::StatusOr<RecordedAnswers> ReadRecordedAnswers(const std::vector<std::string>& logs) {
  RecordedAnswers answers;
  for (const LogFiles& log : LogsNamed(logs)) {
    BATON_RETURN_IF_ERROR(ReadLog(log, &answers));
  }
  if (answers.requests.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no answer of these EOS logs ended by itself (", answers.censored,
                     " ended otherwise); expected at least one with finish_reason stop_eos"));
  }
  return answers;
}

int64_t CutByLength(const std::vector<SimRequest>& requests, int32_t max_model_len) {
  return std::ranges::count_if(requests, [max_model_len](const SimRequest& request) {
    const int64_t room = int64_t{max_model_len} - request.input_tokens;
    return room > 0 && request.output_tokens > room;
  });
}

absl::StatusOr<Workload> RecordedWorkload(const bench::PlanOptions& plan,
                                          const RecordedAnswers& answers) {
  bench::PlanOptions arrivals = plan;
  BATON_ASSIGN_OR_RETURN(arrivals.input,
                         bench::LengthDistribution::Parse("1", bench::LengthSide::kInput));
  BATON_ASSIGN_OR_RETURN(arrivals.output,
                         bench::LengthDistribution::Parse("1", bench::LengthSide::kOutput));
  arrivals.shared_prefix_tokens = 0;
  BATON_ASSIGN_OR_RETURN(Workload workload, PlannedWorkload(arrivals));
  const std::vector<size_t> order = AnswerOrder(answers.requests.size(), plan.seed);
  for (size_t i = 0; i < workload.requests.size(); ++i) {
    const base::Duration at = workload.requests[i].at;
    workload.requests[i] = answers.requests[order[i % order.size()]];
    workload.requests[i].at = at;
    const bool filled = workload.requests[i].input_tokens <= plan.shared_prefix_tokens;
    workload.filled_by_prefix += filled ? 1 : 0;
  }
  return workload;
}

}  // namespace baton::simulator
