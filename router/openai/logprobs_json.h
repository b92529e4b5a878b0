#pragma once

#include <cstdint>

#include "baton/v1/inference.pb.h"
#include "nlohmann/json.hpp"

namespace baton {

// {"content": [{"token", "logprob", "bytes", "top_logprobs": […]}], "refusal": null}.
nlohmann::ordered_json ChatLogprobs(const v1::Delta& delta);
// {"text_offset", "token_logprobs", "tokens", "top_logprobs"}: lists with an entry for each token.
// `*offset` counts the characters of all tokens before, and goes on. The token that was drawn
// stands among the top ones, as with OpenAI.
nlohmann::ordered_json CompletionLogprobs(const v1::Delta& delta, int64_t* offset);

}  // namespace baton
