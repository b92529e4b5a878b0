#pragma once

#include <cstdint>
#include <string_view>

#include "baton/v1/inference.pb.h"
#include "nlohmann/json.hpp"

namespace baton {

// {"content": [{"token", "logprob", "bytes", "top_logprobs": […]}], "refusal": null}.
nlohmann::ordered_json ChatLogprobs(const v1::Delta& delta);
// {"text_offset", "token_logprobs", "tokens", "top_logprobs"}: lists with an entry for each token.
// `*offset` counts the characters of all tokens before, and goes on. The token that was drawn
// stands among the top ones, as with OpenAI.
nlohmann::ordered_json CompletionLogprobs(const v1::Delta& delta, int64_t* offset);
// As that, of an echoed prompt, whose first token has null for its logprobs. What `text`, where it
// goes on at its first character, does not show, as special tokens that it leaves out, takes no
// room in it: `*text` and `*offset` go on behind what was found.
nlohmann::ordered_json PromptLogprobs(const v1::Prompt& prompt, std::string_view* text,
                                      int64_t* offset);

}  // namespace baton
