#pragma once

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "router/openai/openai_request.h"

namespace baton {

// A request while its body is read: what has no place in the request before all fields are known.
struct RequestDraft {
  OpenAiApi api = OpenAiApi::kCompletions;
  OpenAiRequest request;
  std::string_view body;  // all of it, for what is passed on as it was written
  bool has_input = false;
  std::optional<int32_t> max_tokens;
  std::optional<int32_t> max_completion_tokens;  // goes before max_tokens, which it replaces
  bool logprobs = false;                         // of a chat
  std::optional<int32_t> top_logprobs;
  bool echo = false;
  bool has_stream_options = false;
  bool ignore_eos = false;
  bool use_beam_search = false;
  std::optional<v1::EosPolicy> eos;  // of the extension
};

// The objects among the fields, each in its file. All of them refuse a value of another type. What
// the table of limits bounds has been held against it by then (json_body.h).
absl::Status ReadPrompt(const nlohmann::json& value, RequestDraft* draft);
absl::Status ReadMessages(const nlohmann::json& value, RequestDraft* draft);
absl::Status ReadStreamOptions(const nlohmann::json& value, RequestDraft* draft);
absl::Status ReadExtension(const nlohmann::json& value, RequestDraft* draft);
absl::Status ReadResponseFormat(const nlohmann::json& value, RequestDraft* draft);
absl::Status ReadGuidedJson(const nlohmann::json& value, RequestDraft* draft);
absl::Status ReadGuidedRegex(const nlohmann::json& value, RequestDraft* draft);
absl::Status ReadGuidedGrammar(const nlohmann::json& value, RequestDraft* draft);
absl::Status ReadGuidedChoice(const nlohmann::json& value, RequestDraft* draft);

}  // namespace baton
