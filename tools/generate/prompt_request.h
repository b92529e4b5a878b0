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
  // Not OK: the line's values do not fit the API's types, so it fails without being sent.
  absl::Status unsendable;
};

// What lines start from.
struct PromptDefaults {
  baton::v1::GenerationSpec spec;
  bool chat = false;  // a "prompt" becomes a message of the user
};

PromptRequest RequestOfPrompt(std::string prompt, const PromptDefaults& defaults);

// A line of a prompts file: {"prompt" | "token_ids" | "messages", options in snake_case,
// "request_id"}. An error is one of usage, naming `where`: not a JSON object, or an unknown key.
absl::StatusOr<PromptRequest> ParsePromptLine(std::string_view line, const std::string& where,
                                              const PromptDefaults& defaults);

// Every line but blank ones.
absl::StatusOr<std::vector<PromptRequest>> ReadPrompts(std::istream* input, const std::string& name,
                                                       const PromptDefaults& defaults);

}  // namespace baton
