#pragma once

#include <istream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/inference.pb.h"

namespace baton {

// One request to send.
struct PromptRequest {
  using Messages = std::vector<baton::v1::ChatMessage>;

  baton::v1::GenerationSpec spec;
  std::variant<std::string, std::vector<int32_t>, Messages> input;
  // An error when the line's values do not fit the API's types: it fails without being sent.
  absl::Status unsendable;
};

// What every line of a prompts file starts from.
struct PromptDefaults {
  baton::v1::GenerationSpec spec;
  bool chat = false;  // a "prompt" becomes a message of the user
};

PromptRequest RequestOfPrompt(std::string prompt, const PromptDefaults& defaults);

// Reads a line of a prompts file, a JSON object with one of "prompt", "token_ids" and "messages",
// options in snake_case, and perhaps a "request_id":
//
//   {"prompt": "Once", "max_tokens": 32, "temperature": 0, "request_id": "a"}
//
// An error is one of usage that names `where`: the line is no JSON object, or has an unknown key.
absl::StatusOr<PromptRequest> ParsePromptLine(std::string_view line, const std::string& where,
                                              const PromptDefaults& defaults);

// The requests of all lines, of which blank ones are skipped; an error where there are none or the
// file cannot be read to its end. `name` is the file's in messages.
absl::StatusOr<std::vector<PromptRequest>> ReadPrompts(std::istream* input, const std::string& name,
                                                       const PromptDefaults& defaults);

}  // namespace baton
