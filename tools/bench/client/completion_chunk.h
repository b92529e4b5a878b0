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
  // How many tokens the first choice brought: its token ids where the server sends them, else 1 for
  // text that is not empty. One such chunk is one arrival, as vllm bench serve counts.
  int32_t tokens = 0;
  std::string finish_reason;  // "" while it goes on
  std::optional<Usage> usage;
  std::string error;  // message of an error that the server sent in the stream
};

// INVALID_ARGUMENT quotes the beginning of what is not a JSON object.
absl::StatusOr<CompletionChunk> ParseCompletionChunk(std::string_view json);

// The message in the body of a refusal: error.message, error, message or detail, whichever there
// is, else the beginning of the body.
std::string ErrorMessageOf(std::string_view body);

}  // namespace baton::bench
