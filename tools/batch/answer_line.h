#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "tools/batch/line_key.h"

namespace baton::batch {

// One line of a batch's output, as OpenAI has it:
// {"id", "custom_id", "response": {"status_code", "request_id", "body"} | null, "error": {"code",
// "message"} | null}. "id" names the line of the input: "line-17".

// Every such line begins so.
inline constexpr std::string_view kAnswerBegin = R"({"id":"line-)";

struct LineName {
  int64_t number = 0;     // in the input, from 1
  std::string custom_id;  // empty becomes null
};

// The line, with its line break, for what the service said. `body` is its JSON, which stands in the
// line as it came.
std::string ResponseLine(const LineName& name, long http_status, std::string_view request_id,
                         std::string_view body);
// The same for a line that has no answer of the service.
std::string ErrorLine(const LineName& name, std::string_view code, std::string_view message);

// What a line of output is about.
struct AnswerHead {
  LineKey key;
  bool failed = false;  // an error, or a status other than 200
};
// Empty for any other text.
std::optional<AnswerHead> HeadOfAnswer(std::string_view text);

}  // namespace baton::batch
