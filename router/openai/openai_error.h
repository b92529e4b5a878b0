#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/http/http_message.h"
#include "router/openai/openai_request.h"

namespace baton {

// How failures look to clients of the OpenAI protocol:
// {"error": {"message", "type", "param", "code"}} with a status of HTTP, and Retry-After where
// trying again helps. `param` and the message name fields as this protocol does.

// The body alone, for a stream that has begun. Without a line break.
std::string OpenAiErrorJson(const absl::Status& status, OpenAiApi api,
                            const OpenAiNames& names = {});
HttpReply OpenAiErrorReply(const absl::Status& status, OpenAiApi api,
                           const OpenAiNames& names = {});
// For what HTTP itself is refused for, by its status.
HttpReply OpenAiErrorReply(int http_status, std::string_view message);

}  // namespace baton
