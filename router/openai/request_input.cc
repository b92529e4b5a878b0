// The fields that say what to generate from.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/shown_text.h"
#include "common/base/status.h"
#include "router/openai/json_fields.h"
#include "router/openai/request_draft.h"

namespace baton {
namespace {

using BodyJson = nlohmann::json;

// Fields of a message that are known; others are named as ignored.
bool IsMessageField(std::string_view key) {
  return key == "role" || key == "content" || key == "name";
}

// Fields that ask for something that there is not, unless they are empty.
bool IsLackingMessageField(std::string_view key) {
  return key == "tool_calls" || key == "tool_call_id" || key == "function_call" || key == "audio" ||
         key == "refusal" || key == "reasoning_content" || key == "reasoning";
}

bool IsNothing(const BodyJson& value) {
  return value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty()) ||
         ((value.is_array() || value.is_object()) && value.empty());
}

absl::StatusOr<std::string> PartText(const std::string& field, const BodyJson& part) {
  if (part.is_string()) return part.get<std::string>();
  if (!part.is_object()) return WrongType(field, part, "an object with type and text");
  const auto type = part.find("type");
  if (type == part.end() || !type->is_string()) {
    return InvalidArgument(Reason::kNone, field,
                           absl::StrCat(field, " has no type; expected \"type\": \"text\""));
  }
  if (*type != "text") {
    return NotThere(absl::StrCat(field, ".type"), "only parts of the type \"text\" are");
  }
  const auto text = part.find("text");
  if (text != part.end() && text->is_string()) return text->get<std::string>();
  return InvalidArgument(Reason::kNone, field, absl::StrCat(field, " has no text; expected one"));
}

// Parts are joined by line breaks.
absl::StatusOr<std::string> ContentText(const std::string& field, const BodyJson& content) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return WrongType(field, content, "a string or a list of text parts");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(const std::string part,
                           PartText(absl::StrCat(field, "[", i, "]"), content[i]));
    absl::StrAppend(&text, i > 0 ? "\n" : "", part);
  }
  return text;
}

absl::Status ReadName(const std::string& field, const BodyJson& value, ChatMessage* message) {
  if (value.is_null()) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const std::string name, StringOf(field, value));
  message->fields_json = BodyJson{{"name", name}}.dump();
  return absl::OkStatus();
}

absl::Status CheckOtherFields(const std::string& path, const BodyJson& message,
                              std::vector<std::string>* ignored) {
  for (const auto& [key, value] : message.items()) {
    const std::string field = absl::StrCat(path, ".", key);
    if (IsMessageField(key)) continue;
    if (!IsLackingMessageField(key)) {
      ignored->push_back(absl::StrCat("messages.", key));
    } else if (!IsNothing(value)) {
      return NotThere(field, "send the text of the conversation alone");
    }
  }
  return absl::OkStatus();
}

// The role as chat templates know it. Most leave a message of another out without a word.
absl::StatusOr<std::string> ReadRole(const std::string& field, const BodyJson& value) {
  BATON_ASSIGN_OR_RETURN(const std::string role, StringOf(field, value));
  if (role == "system" || role == "user" || role == "assistant") return role;
  if (role == "developer") return "system";  // its newer name
  if (role == "tool" || role == "function") {
    return MakeError(absl::StatusCode::kUnimplemented,
                     {.reason = Reason::kUnsupportedField, .field = field},
                     absl::StrCat(field, " is \"", role,
                                  "\", which is not supported; expected system, user or assistant: "
                                  "send a tool's result as a user message"));
  }
  return InvalidArgument(Reason::kNone, field,
                         absl::StrCat(field, " is \"", ShownText(role),
                                      "\"; expected system, developer, user or assistant"));
}

absl::StatusOr<ChatMessage> ReadMessage(const std::string& path, const BodyJson& value,
                                        std::vector<std::string>* ignored) {
  if (!value.is_object()) return WrongType(path, value, "an object with role and content");
  BATON_RETURN_IF_ERROR(CheckOtherFields(path, value, ignored));
  ChatMessage message;
  BATON_ASSIGN_OR_RETURN(message.role,
                         ReadRole(path + ".role", value.value("role", BodyJson(nullptr))));
  BATON_ASSIGN_OR_RETURN(message.content,
                         ContentText(path + ".content", value.value("content", BodyJson(nullptr))));
  BATON_RETURN_IF_ERROR(ReadName(path + ".name", value.value("name", BodyJson(nullptr)), &message));
  return message;
}

constexpr std::string_view kPromptExpected = "a string, or a list of token ids";

// Why a list of several, of which the first is no token id, cannot be a prompt.
absl::Status NotOnePrompt(const BodyJson& list) {
  const auto is_prompt = [](const BodyJson& one) { return one.is_string() || one.is_array(); };
  if (!std::ranges::all_of(list, is_prompt)) {
    return InvalidArgument(Reason::kNone, "prompt",
                           absl::StrCat("prompt is a list of different kinds; expected ",
                                        std::string(kPromptExpected)));
  }
  return MakeError(absl::StatusCode::kUnimplemented,
                   {.reason = Reason::kUnsupportedField, .field = "prompt"},
                   absl::StrCat("prompt is a list of ", list.size(),
                                " prompts, which is not implemented; send one request for each"));
}

}  // namespace

absl::Status ReadPrompt(const BodyJson& value, RequestDraft* draft) {
  const BodyJson* prompt = &value;
  // A batch of one is no batch.
  if (value.is_array() && value.size() == 1 && !value[0].is_number()) prompt = &value[0];
  draft->has_input = true;
  if (prompt->is_string()) {
    draft->request.input = prompt->get<std::string>();
    return absl::OkStatus();
  }
  if (!prompt->is_array()) return WrongType("prompt", *prompt, kPromptExpected);
  if (prompt->size() > 1 && !(*prompt)[0].is_number()) return NotOnePrompt(*prompt);
  BATON_ASSIGN_OR_RETURN(draft->request.input, IdsOf("prompt", *prompt));
  return absl::OkStatus();
}

absl::Status ReadMessages(const BodyJson& value, RequestDraft* draft) {
  if (!value.is_array()) return WrongType("messages", value, "a list of messages");
  std::vector<ChatMessage> messages;
  for (size_t i = 0; i < value.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(ChatMessage message, ReadMessage(absl::StrCat("messages[", i, "]"),
                                                            value[i], &draft->request.ignored));
    messages.push_back(std::move(message));
  }
  draft->has_input = true;
  draft->request.input = std::move(messages);
  return absl::OkStatus();
}

}  // namespace baton
