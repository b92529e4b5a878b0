// The fields that say what an answer has to follow.
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "router/openai/json_fields.h"
#include "router/openai/raw_member.h"
#include "router/openai/request_draft.h"

namespace baton {
namespace {

using BodyJson = nlohmann::json;

// A guide that says nothing would be no guide: the answer would be free where the client asked for
// a form.
absl::Status EmptyGuide(std::string_view field, std::string_view expected) {
  return InvalidArgument(Reason::kInvalidGuide, field,
                         absl::StrCat(std::string(field), " is empty; expected ",
                                      std::string(expected), ", or leave it out"));
}

// The schema as the body has it, which has parsed. Without its text the answer would be free.
absl::StatusOr<std::string_view> SchemaText(std::string_view field,
                                            std::optional<std::string_view> text) {
  if (text) return *text;
  return MakeError(absl::StatusCode::kInternal, {.field = std::string(field)},
                   absl::StrCat("the schema of ", std::string(field),
                                " was not found in the body; send it as a text in guided_json"));
}

// `field` is a literal, since errors of the request keep it.
absl::Status SetSchema(std::string_view field, std::string_view schema, RequestDraft* draft) {
  v1::GenerationSpec& spec = draft->request.spec;
  if (!spec.guided_json().empty()) {
    return InvalidArgument(Reason::kConflictingOptions, field,
                           "both response_format and guided_json have a schema; expected one");
  }
  spec.set_guided_json(std::string(schema));
  draft->request.shape.names.schema = field;
  return absl::OkStatus();
}

absl::Status ReadSchemaFormat(const BodyJson& format, RequestDraft* draft) {
  constexpr std::string_view kField = "response_format.json_schema";
  const auto wrapped = format.find("json_schema");
  if (wrapped == format.end() || !wrapped->is_object() || !wrapped->contains("schema")) {
    return InvalidArgument(Reason::kNone, kField,
                           absl::StrCat(std::string(kField),
                                        " has no schema; expected an object with name and schema"));
  }
  const BodyJson& schema = (*wrapped)["schema"];
  if (!schema.is_object() && !schema.is_boolean()) {
    return WrongType(absl::StrCat(std::string(kField), ".schema"), schema, "a JSON schema");
  }
  const auto outer = RawMember(draft->body, "response_format");
  const auto inner = outer ? RawMember(*outer, "json_schema") : std::nullopt;
  BATON_ASSIGN_OR_RETURN(const std::string_view text,
                         SchemaText(kField, inner ? RawMember(*inner, "schema") : std::nullopt));
  return SetSchema(kField, text, draft);
}

}  // namespace

absl::Status ReadResponseFormat(const BodyJson& value, RequestDraft* draft) {
  constexpr std::string_view kField = "response_format";
  if (!value.is_object()) return WrongType(kField, value, "an object with type");
  const auto type = value.find("type");
  if (type == value.end() || !type->is_string()) {
    return InvalidArgument(Reason::kNone, "response_format.type",
                           "response_format has no type; expected text, json_object or "
                           "json_schema");
  }
  if (*type == "text") return absl::OkStatus();
  if (*type == "json_schema") return ReadSchemaFormat(value, draft);
  if (*type != "json_object") {
    return NotThere("response_format.type", "expected text, json_object or json_schema");
  }
  draft->request.spec.set_json_object(true);
  return absl::OkStatus();
}

absl::Status ReadGuidedJson(const BodyJson& value, RequestDraft* draft) {
  if (value.is_string()) {
    const auto& schema = value.get_ref<const std::string&>();
    if (schema.empty()) return EmptyGuide("guided_json", "a JSON schema");
    return SetSchema("guided_json", schema, draft);
  }
  if (!value.is_object() && !value.is_boolean()) {
    return WrongType("guided_json", value, "a JSON schema, or the text of one");
  }
  BATON_ASSIGN_OR_RETURN(const std::string_view text,
                         SchemaText("guided_json", RawMember(draft->body, "guided_json")));
  return SetSchema("guided_json", text, draft);
}

absl::Status ReadGuidedRegex(const BodyJson& value, RequestDraft* draft) {
  BATON_ASSIGN_OR_RETURN(std::string regex, StringOf("guided_regex", value));
  if (regex.empty()) return EmptyGuide("guided_regex", "a regular expression");
  draft->request.spec.set_guided_regex(std::move(regex));
  return absl::OkStatus();
}

absl::Status ReadGuidedGrammar(const BodyJson& value, RequestDraft* draft) {
  BATON_ASSIGN_OR_RETURN(std::string grammar, StringOf("guided_grammar", value));
  if (grammar.empty()) return EmptyGuide("guided_grammar", "a grammar");
  draft->request.spec.set_guided_grammar(std::move(grammar));
  return absl::OkStatus();
}

absl::Status ReadGuidedChoice(const BodyJson& value, RequestDraft* draft) {
  if (!value.is_array()) return WrongType("guided_choice", value, "a list of strings");
  if (value.empty()) return EmptyGuide("guided_choice", "at least one string");
  for (size_t i = 0; i < value.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(std::string text, StringOf(ElementName("guided_choice", i), value[i]));
    draft->request.spec.add_guided_choice(std::move(text));
  }
  return absl::OkStatus();
}

}  // namespace baton
