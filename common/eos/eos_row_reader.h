#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/sample/params.h"

namespace baton {

// A row as it stands in the EOS log. What is null there is empty here.
struct EosLogRow {
  std::string request_id;
  double timestamp = 0;
  int32_t step = 0;
  TokenId token = 0;
  std::optional<TokenId> eos_token_id;
  std::optional<double> eos_logprob, eos_prob;
  bool is_finished = false;
  FinishReason finish_reason = FinishReason::kNone;
  int32_t prompt_length = 0;
  int32_t output_length = 0;
  int64_t total_length = 0;
  std::optional<double> eos_prob_sampling;
  std::optional<int32_t> eos_rank;
  std::optional<double> entropy, top1_prob;
  EosPolicy policy = EosPolicy::kHonor;
  std::optional<int32_t> natural_end_step;
  int32_t attempt = 0;
  int32_t index = 0;  // also of a row that does not say
};

// Reads one line of the log, without its newline, into `row`, which may be used again and again. A
// line that the schema of rows (EosRowSchema) would refuse is INVALID_ARGUMENT, with the key, what
// was found there and what was expected; `row` then holds what was read before.
absl::Status ReadEosRow(std::string_view line, EosLogRow* row);

}  // namespace baton
