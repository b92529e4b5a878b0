#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"

namespace baton::batch {

// One line of a batch: {"custom_id": "…", "method": "POST", "url": "/v1/…", "body": {…}}, as OpenAI
// has it.
struct BatchLine {
  std::string custom_id;  // empty where none could be read
  std::string url;
  nlohmann::ordered_json body;
  // INVALID_ARGUMENT, with what was found and expected, for a line that cannot be sent.
  absl::Status wrong;
};

// No line may be longer; a service takes no body of that size.
inline constexpr int64_t kMaxLineBytes = int64_t{32} << 20;

BatchLine ParseBatchLine(std::string_view text);

// What is known beforehand of how long an answer takes.
struct LineLengths {
  int64_t prompt = 0;  // in tokens: ids are counted, text is guessed by its bytes
  // Tokens of the answer at most; absent where the line sets no limit, and the model's holds.
  std::optional<int64_t> limit;
};
// `line` has been parsed from `text_bytes` bytes, and is not wrong.
LineLengths LengthsOf(const BatchLine& line, int64_t text_bytes);

}  // namespace baton::batch
