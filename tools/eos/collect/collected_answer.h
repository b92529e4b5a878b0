#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "tools/eos/collect/collect_grid.h"
#include "tools/generate/generate_client.h"

namespace baton {

// What is kept of one request.
struct CollectedAnswer {
  std::string rows;  // lines of the EOS log, one per token
  int64_t row_count = 0;
  std::vector<float> projections;  // [rows, width]; empty unless they were asked for
  int64_t width = 0;
  std::string summary;  // its line of requests.jsonl, newline included
};

// Makes it of an outcome without an error. FAILED_PRECONDITION where the server did not answer with
// what every request asks for: a step for each token, and with `grid.hidden` its products.
absl::StatusOr<CollectedAnswer> AnswerOf(const CollectPrompt& prompt, const CollectRequest& request,
                                         const CollectGrid& grid, const Outcome& outcome,
                                         std::optional<TokenId> eos_token_id);

}  // namespace baton
