#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/plan/plan_builder.h"
#include "tools/sim/answers.h"

namespace baton::simulator {

// The requests of a run.
struct Workload {
  std::vector<SimRequest> requests;
  int64_t shortened = 0;         // lengths that did not fit the model
  int64_t filled_by_prefix = 0;  // prompts without a token beyond those that they share
  // A closed loop of a duration: a fast cluster uses the requests up before that is over.
  bool may_run_out = false;
};

// The load that `baton bench` would make of these options: the same arrivals and lengths from the
// same seed. `plan.input` and `plan.output`, a trace, and of prompts only how many tokens they
// share.
absl::StatusOr<Workload> PlannedWorkload(const bench::PlanOptions& plan);

// Which beginnings prompts have in common: one of `count`, the k-th of them with a probability in
// proportion to k^-skew (Zipf's law).
struct PrefixShare {
  int32_t count = 1;
  double skew = 1;
};
// Draws from `seed` which of them each prompt has, as its only hash id.
void SharePrefixes(const PrefixShare& share, uint64_t seed, std::vector<SimRequest>* requests);

// Answers that ended by themselves, from EOS logs, with prompts as long as recorded there.
struct RecordedAnswers {
  std::vector<SimRequest> requests;  // in the order in which they began; no arrivals
  int64_t censored = 0;              // ended otherwise, so that nobody knows how long they are
  int64_t sampling_unknown = 0;      // of `requests`: nothing says with what they were drawn
};
// An error names the file and line that is no row, what was found and what was expected.
absl::StatusOr<RecordedAnswers> ReadRecordedAnswers(const std::vector<std::string>& logs);

// How many recorded answers a model of that length cuts off, where requests give no limit of their
// own. A request whose prompt leaves no token is not among them: it is refused.
int64_t CutByLength(const std::vector<SimRequest>& requests, int32_t max_model_len);

// As many requests as `plan` says, arriving as it says, each with a recorded answer: all of them in
// an order drawn from the plan's seed, and again from the first. Their own order says something of
// their lengths, as what a log begins with is what ended before it was cut.
absl::StatusOr<Workload> RecordedWorkload(const bench::PlanOptions& plan,
                                          const RecordedAnswers& answers);

}  // namespace baton::simulator
