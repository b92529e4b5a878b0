#include "tools/generate/prompt_request.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/edit_distance.h"
#include "common/config/flag_set.h"
#include "common/formats/json_reader.h"
#include "nlohmann/json.hpp"
#include "tools/generate/prompt_options.h"

namespace baton {
namespace {

using Json = nlohmann::json;

absl::StatusOr<PromptRequest::Messages> Messages(const Json& value) {
  PromptRequest::Messages messages;
  if (!value.is_array()) {
    return WrongType(Reason::kInvalidText, "messages", value, "a list of {role, content}");
  }
  for (const Json& element : value) {
    const bool complete = element.is_object() && element.contains("role") &&
                          element["role"].is_string() && element.contains("content") &&
                          element["content"].is_string();
    if (!complete) {
      return WrongType(Reason::kInvalidText, "messages", element, "{role, content} of strings");
    }
    messages.emplace_back();
    messages.back().set_role(element["role"].get<std::string>());
    messages.back().set_content(element["content"].get<std::string>());
  }
  return messages;
}

constexpr const char* kInputs[] = {"prompt", "token_ids", "messages"};

absl::Status SetInput(const Json& line, bool chat, PromptRequest* request) {
  int given = 0;
  for (const char* key : kInputs) given += line.contains(key) ? 1 : 0;
  if (given > 1) {
    return InvalidArgument(Reason::kConflictingOptions, "prompt",
                           "found several of prompt, token_ids and messages; expected one");
  }
  if (line.contains("token_ids")) {
    BATON_ASSIGN_OR_RETURN(request->input, TokenIdsOf("token_ids", line["token_ids"]));
  } else if (line.contains("messages")) {
    BATON_ASSIGN_OR_RETURN(request->input, Messages(line["messages"]));
  } else if (line.contains("prompt")) {
    if (!line["prompt"].is_string()) {
      return WrongType(Reason::kInvalidText, "prompt", line["prompt"], "a string");
    }
    const PromptDefaults defaults = {.spec = request->spec, .chat = chat};
    request->input = RequestOfPrompt(line["prompt"].get<std::string>(), defaults).input;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> TakeChat(const Json& line, bool otherwise) {
  if (!line.contains("chat")) return otherwise;
  if (line["chat"].is_boolean()) return line["chat"].get<bool>();
  return WrongType(Reason::kConflictingOptions, "chat", line["chat"], "true or false");
}

absl::Status FillRequest(const Json& line, bool chat_by_default, PromptRequest* request) {
  // The id first: whatever else is wrong is reported under it.
  if (line.contains("request_id")) {
    BATON_RETURN_IF_ERROR(
        PromptOptions().at("request_id")("request_id", line["request_id"], &request->spec));
  }
  for (const auto& [key, value] : line.items()) {
    const auto option = PromptOptions().find(key);
    if (option == PromptOptions().end()) continue;
    BATON_RETURN_IF_ERROR(option->second(key, value, &request->spec));
  }
  BATON_ASSIGN_OR_RETURN(const bool chat, TakeChat(line, chat_by_default));
  return SetInput(line, chat, request);
}

absl::Status CheckKeys(const Json& line, const std::string& where) {
  std::vector<std::string> known(std::begin(kInputs), std::end(kInputs));
  known.emplace_back("chat");
  for (const auto& [key, setter] : PromptOptions()) known.push_back(key);
  for (const auto& [key, value] : line.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string nearest = NearestName(key, known);
    return UsageError(absl::StrCat("unknown key '", key, "' in ", where),
                      "a prompt has no such option",
                      nearest.empty() ? "prompt, token_ids or messages" : nearest);
  }
  return absl::OkStatus();
}

}  // namespace

PromptRequest RequestOfPrompt(std::string prompt, const PromptDefaults& defaults) {
  PromptRequest request{.spec = defaults.spec, .input = {}, .unsendable = {}};
  if (!defaults.chat) {
    request.input = std::move(prompt);
    return request;
  }
  PromptRequest::Messages messages(1);
  messages[0].set_role("user");
  messages[0].set_content(std::move(prompt));
  request.input = std::move(messages);
  return request;
}

absl::StatusOr<PromptRequest> ParsePromptLine(std::string_view line, const std::string& where,
                                              const PromptDefaults& defaults) {
  const absl::StatusOr<Json> json = ParseJsonObjectLine(line);
  if (!json.ok()) {
    return UsageError(where, absl::StrCat("found ", json.status().message()),
                      R"({"prompt": "Once upon a time"})");
  }
  BATON_RETURN_IF_ERROR(CheckKeys(*json, where));
  PromptRequest request{.spec = defaults.spec, .input = {}, .unsendable = {}};
  request.unsendable = FillRequest(*json, defaults.chat, &request);
  return request;
}

absl::StatusOr<std::vector<PromptRequest>> ReadPrompts(std::istream* input, const std::string& name,
                                                       const PromptDefaults& defaults) {
  std::vector<PromptRequest> requests;
  std::string line;
  for (int number = 1; std::getline(*input, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    BATON_ASSIGN_OR_RETURN(PromptRequest request,
                           ParsePromptLine(line, absl::StrCat(name, " line ", number), defaults));
    requests.push_back(std::move(request));
  }
  // A folder opens as a file does, and fails when it is read.
  if (input->bad()) {
    return UsageError("cannot read " + name, std::strerror(errno), "a file of JSON lines");
  }
  if (requests.empty()) {
    return UsageError(name, "found no prompts, expected at least one line",
                      R"({"prompt": "Once upon a time"})");
  }
  return requests;
}

}  // namespace baton
