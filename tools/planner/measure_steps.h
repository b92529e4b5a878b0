#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/model/model_options.h"
#include "nlohmann/json.hpp"

namespace baton::planner {

// What steps are to be measured with.
struct MeasureOptions {
  ModelOptions model;
  int32_t max_prefill_tokens = 2048;
};

// Loads the model and times steps of many sizes through an engine, so that what the engine does
// between two steps is in the times: prompts alone, from their arrival to the first token, and
// batches of equal contexts, from step to step. Medians, in the form of `bench_model --json`:
//   {"numerics", "threads", "prefill": [{"count": 1, "tokens", "ms"}],
//    "decode": [{"batch", "context", "mean_context", "ms"}]}
absl::StatusOr<nlohmann::ordered_json> MeasureSteps(const std::string& model_dir,
                                                    const MeasureOptions& options);

}  // namespace baton::planner
