#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/bench/plan/plan_builder.h"
#include "tools/bench/plan/prompt_file.h"

namespace baton::bench {

// One request before its prompt is made.
struct PlannedLength {
  base::Duration at{};
  int32_t input_tokens = 0;  // -1: text of a user's file
  int32_t output_tokens = 0;
  std::vector<uint64_t> hash_ids;
  int64_t file_prompt = -1;  // index into the file's prompts
};

// When every request arrives and how long it is. Fills the counts of `summary`. INVALID_ARGUMENT
// also when a shared prefix leaves no prompt a token of its own.
absl::StatusOr<std::vector<PlannedLength>> PlanLengths(const PlanOptions& options,
                                                       const std::vector<FilePrompt>& prompts,
                                                       PlanSummary* summary);

// The mean length of prompts in token ids: of the first requests of a plan, or of all prompts of a
// file.
absl::StatusOr<double> MeanInputTokens(const PlanOptions& options,
                                       const std::vector<FilePrompt>& prompts);

// The bounds of what a plan may hold.
constexpr int64_t kMaxPlannedIds = int64_t{256} << 20;
constexpr int64_t kMaxPlannedRequests = 5'000'000;

}  // namespace baton::bench
