#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "router/openai/openai_request.h"

namespace baton {

// The JSON object that the body of a request is. INVALID_ARGUMENT, with the place or the key, for
// what is not JSON or not UTF-8, for a key that stands twice in one object, and as LIMIT_EXCEEDED
// for more than the table of limits (common/sample/request_limits.h) allows and for more levels or
// values than any request needs: that before anything of the body is copied, so that what reading
// costs grows with what may be accepted.
absl::StatusOr<nlohmann::json> ParseJsonBody(OpenAiApi api, std::string_view body);

}  // namespace baton
