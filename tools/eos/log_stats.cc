#include "tools/eos/log_stats.h"

#include <utility>

#include "common/base/status.h"
#include "tools/eos/row_source.h"

namespace baton {

absl::Status LogStats::ReadLog(const LogFiles& log) {
  BATON_ASSIGN_OR_RETURN(RowSource rows, RowSource::Open(log));
  EosLogRow row;
  while (true) {
    BATON_ASSIGN_OR_RETURN(const RowSource::Got got, rows.Next(&row));
    if (got == RowSource::Got::kEnd) break;
    if (got == RowSource::Got::kRow) {
      Take(row);
    } else {
      ++unreadable_;
    }
  }
  if (std::string rest = rows.RestText(rows.rest()); !rest.empty()) {
    rests_.push_back(std::move(rest));
  }
  EndLog();
  return absl::OkStatus();
}

void LogStats::EndLog() {
  open_.clear();
  ++logs_;
}

void LogStats::Take(const EosLogRow& row) {
  ++rows_;
  auto [place, is_new] = open_.try_emplace({row.request_id, row.index});
  Request& request = place->second;
  // The id of a request that never ended may be used again after a restart of the router.
  if (!is_new && row.step <= request.step) request = {};
  if (request.step == 0) ++requests_;
  request.step = row.step;
  if (row.eos_prob) {
    request.probs.Add(*row.eos_prob);
    probs_.Add(*row.eos_prob);
  }
  if (row.entropy) entropies_.Add(*row.entropy);
  if (!row.is_finished) return;
  Finish(row, request);
  open_.erase(place);
}

void LogStats::Finish(const EosLogRow& row, const Request& request) {
  ++ended_[row.finish_reason];
  lengths_.Add(row.step);
  if (row.step > longest_.tokens) longest_ = {row.request_id, row.step, row.finish_reason};
  if (request.probs.count() > 0) {
    mean_probs_.Add(request.probs.mean());
    max_probs_.Add(request.probs.max());
  }
  if (row.finish_reason == FinishReason::kStopEos) {
    natural_lengths_.Add(row.step);
    if (row.eos_prob) prob_at_stop_.Add(*row.eos_prob);
  } else if (row.natural_end_step) {
    natural_lengths_.Add(*row.natural_end_step);
  }
  if (row.finish_reason == FinishReason::kLength && row.policy == EosPolicy::kHonor) {
    limited_lengths_.Add(row.step);
  }
}

int64_t LogStats::ended(FinishReason reason) const {
  if (reason == FinishReason::kNone) return lengths_.moments().count();
  const auto found = ended_.find(reason);
  return found == ended_.end() ? 0 : found->second;
}

int64_t LogStats::runaways() const {
  const int64_t noticed = ended(FinishReason::kRunaway);
  if (natural() == 0) return noticed;
  return noticed + limited_lengths_.CountAbove(natural_lengths_.Quantile(0.99));
}

}  // namespace baton
