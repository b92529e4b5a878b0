#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/text/tokenizer.h"
#include "tools/bench/plan/length_distribution.h"
#include "tools/bench/plan/prompt_maker.h"
#include "tools/bench/plan/request_plan.h"

namespace baton::bench {

struct PlanOptions {
  // When requests arrive: exactly one of these.
  double rate = 0;             // open loop, requests per second
  int32_t concurrency = 0;     // closed loop
  std::string trace;           // a file, see ReadTrace; it has lengths, too
  double burstiness = 1;       // of `rate`, see ArrivalOptions
  double time_scale = 1;       // of `trace`
  int32_t block_tokens = 512;  // of a hash id of `trace`

  // How long they are. `output` also serves the lines of `prompts` that have no length of their
  // own.
  std::optional<LengthDistribution> input;
  std::optional<LengthDistribution> output;
  // A file, see ReadPromptFile, in place of `input`. Used from the start again when it is shorter
  // than the plan.
  std::string prompts;

  // How many: requests after the warm-up, time after the warm-up, or whichever ends first. Without
  // either, a trace or a file of prompts is used once. In a closed loop nobody knows how many the
  // warm-up takes: there `requests` are all of them, and `duration` is an upper bound on how many
  // are planned (4000 output tokens per second and place, within bounds of memory).
  int64_t requests = 0;       // 0 = not limited
  base::Duration duration{};  // zero = not limited
  base::Duration warmup{};

  uint64_t seed = 0;
  std::optional<uint64_t> prompt_seed;  // of the prompts' tokens alone; absent = `seed`
  EosMode eos = EosMode::kHonor;
  int32_t max_model_len = 0;  // prompt and output together; 0 = not known

  // What prompts are made of.
  PromptVocabulary vocabulary;           // for token ids
  const Tokenizer* tokenizer = nullptr;  // for text; for ids, to leave out special tokens
  bool text = false;                     // send text
  int32_t shared_prefix_tokens = 0;      // fewer than the longest of `input`
};

// That just one of --rate, --concurrency and --trace says when requests come.
absl::Status CheckOneLoad(bool rate, bool concurrency, bool trace);

// What a person should know about a plan.
struct PlanSummary {
  int64_t requests = 0;
  int64_t prompt_tokens = 0;  // of all requests whose prompt is counted
  // Drawn or recorded lengths that did not fit max_model_len and were shortened in proportion.
  int64_t clamped = 0;
  int64_t repeated_prompts = 0;  // times that a line of `prompts` was used again
  int64_t filled_by_prefix = 0;  // prompts without a token beyond shared_prefix_tokens
  bool may_run_out = false;  // a closed loop of a duration: a faster server uses the plan up early
};

// What to say where `filled` of `requests` prompts have no token beyond the shared prefix.
std::string FilledByPrefix(int64_t filled, int64_t requests, int32_t prefix_tokens);

struct BuiltPlan {
  RequestPlan plan;
  PlanSummary summary;
};

// The whole plan of a run, the same for equal options. INVALID_ARGUMENT says which options
// contradict each other, which number does not fit the model's length, and when the prompts would
// take more memory than a generator should (256 Mi token ids, 5 million requests).
absl::StatusOr<BuiltPlan> BuildPlan(const PlanOptions& options);

// Requests that such a plan can hold, whatever number and duration `options` ask for: at the mean
// length of some, half of what the bounds of memory allow, since others may be longer.
absl::StatusOr<int64_t> MostRequestsOfAPlan(const PlanOptions& options);

}  // namespace baton::bench
