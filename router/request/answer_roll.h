#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "router/router_probe.h"

namespace baton {

// Which answers of one request are under way, and what that means for the request: the first is
// opened at once, the others later and together; it is over when all that were opened are, and an
// error of one is that of the request. Not thread-safe.
class AnswerRoll final {
 public:
  explicit AnswerRoll(int32_t answers) : figures_(static_cast<size_t>(answers)) {}

  // The first answer is as far as the others need it to be. True when they are to be opened now,
  // which is so once, and never after an error.
  bool OpenOthers();
  // An answer brought an error. True for the first error: those under way are to be ended with it.
  bool Fail(const absl::Status& status, FinishReason reason);
  // An answer that was opened is over, however it ended.
  void Over(int32_t index, const RequestFigures& figures);

  bool all_over() const { return over_ == opened_ && (failure_ || opened_ == answers()); }
  // The error of the request, and the reason by which logs name it.
  struct Failure {
    absl::Status status;
    FinishReason reason = FinishReason::kNone;
  };
  const std::optional<Failure>& failure() const { return failure_; }

  // What the request took as a whole, once all is over. It ended as its first answer did, or by the
  // error.
  RequestFigures Total() const;

 private:
  int32_t answers() const { return static_cast<int32_t>(figures_.size()); }

  std::vector<std::optional<RequestFigures>> figures_;  // by index; of those that are over
  int32_t opened_ = 1;
  int32_t over_ = 0;
  std::optional<Failure> failure_;
};

}  // namespace baton
