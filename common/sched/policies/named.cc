#include "common/sched/policies/named.h"

#include "common/sched/policies/boost.h"
#include "common/sched/policies/past_future.h"
#include "common/sched/policies/remaining.h"

namespace baton {

std::vector<std::string> PolicyNames() { return {"fcfs", "past-future", "remaining", "boost"}; }

std::optional<Policy> PolicyNamed(std::string_view name) {
  if (name == "fcfs") return kFcfsPolicy;
  if (name == "past-future") return kPastFuturePolicy;
  if (name == "remaining") return kRemainingPolicy;
  if (name == "boost") return kBoostPolicy;
  return std::nullopt;
}

}  // namespace baton
