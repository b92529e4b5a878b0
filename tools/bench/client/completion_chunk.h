#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace baton::bench {

// What a load generator takes from one event of an OpenAI-compatible /v1/completions stream.
struct CompletionChunk {
  struct Usage {
    int32_t prompt_tokens = 0;
    int32_t completion_tokens = 0;
    int32_t cached_tokens = 0;
  };
  std::string id;
  // How many tokens the first choice brought: as many as it has ids where the server sends them
  // (vLLM in the choice, Baton in its extension), else 1 for a text, even for an empty one, since
  // special tokens have none. A choice without a text, as one that says who speaks, brought none.
  int32_t tokens = 0;
  // Only the usage tells whether there was a token: the text is empty, and the chunk has something
  // else to say, a finish_reason or a usage. vLLM's last token, often EOS, comes in such a chunk;
  // other servers send one behind the last token.
  bool may_be_token = false;
  std::string finish_reason;  // "" while it goes on
  std::optional<Usage> usage;
  // What ErrorMessageOf says of an event that is an error: its `error` is anything but null, or its
  // `object` is "error". "" of every other.
  std::string error;
};

// INVALID_ARGUMENT quotes the beginning of what is not a JSON object.
absl::StatusOr<CompletionChunk> ParseCompletionChunk(std::string_view json);

// The message in the body of a refusal or in an event that is an error: error.message, error,
// message or detail, whichever is there and not empty, else the beginning of the body.
std::string ErrorMessageOf(std::string_view body);

}  // namespace baton::bench
