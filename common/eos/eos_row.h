#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/eos_signal.h"
#include "common/base/ids.h"
#include "common/sample/params.h"

namespace baton {

// What every row of one request has in common.
struct EosRequestFacts {
  std::string request_id;
  int32_t index = 0;                    // of several answers
  std::optional<TokenId> eos_token_id;  // the tokenizer's primary EOS
  int32_t prompt_length = 0;
  EosPolicy policy = EosPolicy::kHonor;
};

// One accepted token. Its signal belongs to the distribution that produced `token`.
struct EosRow {
  std::shared_ptr<const EosRequestFacts> request;  // shared by the rows of a request in the queue
  double timestamp = 0;                            // Unix seconds, when sampled
  int32_t step = 0;  // tokens sampled including this one and EOS, over all attempts
  TokenId token = 0;
  EosSignal signal;
  // Set only in a request's last row; kNone means that the request went on.
  FinishReason finish_reason = FinishReason::kNone;
  std::optional<int32_t> natural_end_step;  // once it is known
  int32_t attempt = 1;
};

// Appends the row as one line of the EOS log, newline included. The keys stand in the order of the
// log, numbers have at least 9 significant digits, and what is not finite is null.
void AppendEosLine(const EosRow& row, std::string* out);

// Appends `value` as JSON with 9 significant digits or more, or null when it is not finite.
void AppendJsonNumber(double value, std::string* out);
void AppendJsonString(std::string_view text, std::string* out);

}  // namespace baton
