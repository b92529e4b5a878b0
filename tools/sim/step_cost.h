#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/sched/step_plan.h"
#include "nlohmann/json_fwd.hpp"

namespace baton::simulator {

// What one step has to do, as far as its time depends on it.
struct StepWork {
  double rows = 0;           // that generate: one token behind a complete KV
  double prompt_tokens = 0;  // fed in all other rows
  double kv_tokens = 0;      // whose K and V the rows of one token read
  double products = 0;       // of a query with a key, over the tokens of the longer rows
};
StepWork WorkOf(const StepPlan& plan);

// From where on rows cost more: each one beyond the first `beyond`, by `more` microseconds.
struct RowBend {
  double beyond = 0;
  double more = 0;
};
inline constexpr size_t kMostRowBends = 4;

// How long a step takes: a sum with one term for each kind of work, in microseconds. What a device
// does at once, a sum only approximates; fitting says how well. Only the rows' part may bend, and
// only upwards: processes that share the machine's cores take the more of them the more tokens a
// step draws.
struct StepCost {
  double step = 0;
  double row = 0;
  double prompt_token = 0;
  double kv_token = 0;
  double product = 0;
  std::array<RowBend, kMostRowBends> row_bends = {};  // in the order of `beyond`; unused ones last

  // Of so many rows, but for the KV that they read.
  double Rows(double rows) const {
    double sum = row * rows;
    for (const RowBend& bend : row_bends) sum += bend.more * std::max(0.0, rows - bend.beyond);
    return sum;
  }
  double Microseconds(const StepWork& work) const {
    return step + Rows(work.rows) + prompt_token * work.prompt_tokens + kv_token * work.kv_tokens +
           product * work.products;
  }
  // At least a nanosecond, so that time goes on.
  base::Duration Of(const StepWork& work) const;
};

// Reads what CostJson writes:
//   {"schema": "baton.step_cost/1",
//    "us": {"step": 900, "row": 20, "row_beyond": [{"rows": 8, "us": 15}], "prompt_token": 11,
//           "kv_token": 0.01, "attention_product": 0.002}}
// Without "row_beyond" rows have one cost. Other keys at the top are notes. An error names the
// file, what was found and what was expected.
absl::StatusOr<StepCost> ReadStepCost(const std::string& path);
absl::StatusOr<StepCost> ParseStepCost(const std::string& text, const std::string& where);
// `note` says what it was made from.
std::string CostJson(const StepCost& cost, const std::string& note);
// What stands under "us".
nlohmann::ordered_json CostTerms(const StepCost& cost);

}  // namespace baton::simulator
