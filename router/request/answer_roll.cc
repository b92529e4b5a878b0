#include "router/request/answer_roll.h"

#include <algorithm>

#include "common/base/check.h"

namespace baton {

bool AnswerRoll::OpenOthers() {
  if (failure_ || opened_ == answers()) return false;
  opened_ = answers();
  return true;
}

bool AnswerRoll::Fail(const absl::Status& status, FinishReason reason) {
  if (failure_) return false;
  failure_ = {.status = status, .reason = reason};
  return true;
}

void AnswerRoll::Over(int32_t index, const RequestFigures& figures) {
  BATON_CHECK(index < opened_ && !figures_[static_cast<size_t>(index)]) << "answer " << index;
  figures_[static_cast<size_t>(index)] = figures;
  ++over_;
}

RequestFigures AnswerRoll::Total() const {
  BATON_CHECK(figures_[0].has_value()) << "the first answer is not over";
  RequestFigures total = *figures_[0];
  if (failure_) {
    total.reason = failure_->reason;
    total.status = failure_->status;
  }
  for (size_t i = 1; i < figures_.size(); ++i) {
    if (!figures_[i]) continue;
    const RequestFigures& more = *figures_[i];
    total.total = std::max(total.total, more.total);
    total.slack = std::min(total.slack, more.slack);
    total.output_tokens += more.output_tokens;
    if (more.decoding) total.decoding = total.decoding.value_or(base::Duration()) + *more.decoding;
    total.decoding_gaps += more.decoding_gaps;
  }
  return total;
}

}  // namespace baton
