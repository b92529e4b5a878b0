#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include "common/eos/eos_row.h"
#include "common/eos/eos_row_reader.h"

namespace baton {

// What makes one row of a log differ from others; all else is as the router would write it.
struct RowParts {
  std::string id = "r1";
  int32_t step = 1;
  FinishReason reason = FinishReason::kNone;
  EosPolicy policy = EosPolicy::kHonor;
  std::optional<int32_t> natural_end_step;
  int32_t attempt = 1;
  int32_t index = 0;
  int32_t prompt_length = 20;
  double eos_prob = 0.1;
  double timestamp = 0;  // 0: 1000 plus the step
};

// The row as a line of the log, newline included.
inline std::string EosLine(const RowParts& parts) {
  EosRow row;
  row.request =
      std::make_shared<const EosRequestFacts>(EosRequestFacts{.request_id = parts.id,
                                                              .index = parts.index,
                                                              .eos_token_id = 2,
                                                              .prompt_length = parts.prompt_length,
                                                              .policy = parts.policy});
  row.timestamp = parts.timestamp != 0 ? parts.timestamp : 1000 + parts.step;
  row.step = parts.step;
  row.token = 100 + parts.step;
  row.signal = {.eos_logprob = static_cast<float>(std::log(parts.eos_prob)),
                .eos_prob_sampling = 0.25F,
                .eos_rank = 3,
                .entropy = 1.5F,
                .top1_prob = 0.75F};
  row.finish_reason = parts.reason;
  row.natural_end_step = parts.natural_end_step;
  row.attempt = parts.attempt;
  std::string line;
  AppendEosLine(row, &line);
  return line;
}

// All rows of a request that had `steps` tokens.
inline std::string EosLines(const std::string& id, int32_t steps, FinishReason reason,
                            double eos_prob = 0.1, EosPolicy policy = EosPolicy::kHonor) {
  std::string lines;
  for (int32_t step = 1; step <= steps; ++step) {
    lines += EosLine({.id = id,
                      .step = step,
                      .reason = step == steps ? reason : FinishReason::kNone,
                      .policy = policy,
                      .eos_prob = eos_prob});
  }
  return lines;
}

}  // namespace baton
