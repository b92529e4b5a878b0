#include "router/edge/guide_choice.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

std::string ListOf(const google::protobuf::RepeatedPtrField<std::string>& choices) {
  return nlohmann::json(std::vector<std::string>(choices.begin(), choices.end())).dump();
}

}  // namespace

absl::StatusOr<GuideSpec> GuideOf(const v1::GenerationSpec& spec) {
  GuideSpec guide;
  absl::Status conflict;
  const auto take = [&](bool given, GuideKind kind, std::string text) {
    if (!given) return;
    if (guide.empty()) {
      guide = {.kind = kind, .text = std::move(text)};
    } else if (conflict.ok()) {
      const std::string field(GuideFieldName(kind));
      conflict = InvalidArgument(
          Reason::kConflictingOptions, absl::StrCat("spec.", field),
          absl::StrCat("both ", std::string(GuideFieldName(guide.kind)), " and ", field,
                       " say what the answer follows; expected one of them"));
    }
  };
  take(!spec.guided_json().empty(), GuideKind::kJsonSchema, spec.guided_json());
  take(!spec.guided_regex().empty(), GuideKind::kRegex, spec.guided_regex());
  take(!spec.guided_grammar().empty(), GuideKind::kGrammar, spec.guided_grammar());
  take(spec.guided_choice_size() > 0, GuideKind::kChoice, ListOf(spec.guided_choice()));
  take(spec.json_object(), GuideKind::kJsonObject, "");
  if (!conflict.ok()) return conflict;
  return guide;
}

absl::Status CheckGuide(const GuideSpec& guide, GuideCompiler* guides) {
  if (guide.empty()) return absl::OkStatus();
  const absl::Status status = guides != nullptr
                                  ? guides->Check(guide)
                                  : MakeError(absl::StatusCode::kUnimplemented,
                                              {.reason = Reason::kUnsupportedField,
                                               .field = std::string(GuideFieldName(guide.kind))},
                                              "this router guides no answers; leave the guide out");
  if (status.ok()) return status;
  ErrorDetail detail = DetailOf(status);
  // FULL is what workers tell routers.
  if (detail.reason == Reason::kFull) detail.reason = Reason::kQueueFull;
  if (!detail.field.empty()) detail.field = absl::StrCat("spec.", std::move(detail.field));
  return MakeError(status.code(), std::move(detail),
                   {status.message().data(), status.message().size()});
}

}  // namespace baton
