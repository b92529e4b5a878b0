#pragma once

#include <memory>
#include <string>

#include "common/eos/eos_row.h"

namespace baton {

// A row of the EOS log of which no two figures are alike.
inline EosRow SampleEosRow() {
  EosRow row;
  row.request = std::make_shared<const EosRequestFacts>(
      EosRequestFacts{.request_id = "r1", .eos_token_id = 2, .prompt_length = 20});
  row.timestamp = 1234567890.125;
  row.step = 5;
  row.token = 123;
  row.signal = {.eos_logprob = -2.302585F,
                .eos_prob_sampling = 0.25F,
                .eos_rank = 3,
                .entropy = 1.5F,
                .top1_prob = 0.75F};
  return row;
}

// As it stands in the log, newline included.
inline std::string EosLineOf(const EosRow& row) {
  std::string line;
  AppendEosLine(row, &line);
  return line;
}

}  // namespace baton
