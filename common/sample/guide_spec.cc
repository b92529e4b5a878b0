#include "common/sample/guide_spec.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/sample/request_limits.h"

namespace baton {
namespace {

RequestLimit LimitOfGuide(GuideKind kind) {
  switch (kind) {
    case GuideKind::kRegex:
      return RequestLimit::kGuidedRegex;
    case GuideKind::kChoice:
      return RequestLimit::kGuidedChoiceBytes;
    case GuideKind::kGrammar:
      return RequestLimit::kGuidedGrammar;
    default:
      return RequestLimit::kGuidedJson;
  }
}

}  // namespace

std::string_view GuideFieldName(GuideKind kind) {
  switch (kind) {
    case GuideKind::kNone:
      return "";
    case GuideKind::kJsonSchema:
      return "guided_json";
    case GuideKind::kJsonObject:
      return "json_object";
    case GuideKind::kRegex:
      return "guided_regex";
    case GuideKind::kChoice:
      return "guided_choice";
    case GuideKind::kGrammar:
      return "guided_grammar";
  }
  return "";
}

absl::Status ValidateGuide(const GuideSpec& guide, const StopParams& stop) {
  if (guide.empty()) return absl::OkStatus();
  if (guide.kind != GuideKind::kChoice) {
    BATON_RETURN_IF_ERROR(CheckLimit(LimitOfGuide(guide.kind), std::ssize(guide.text)));
  }
  if (stop.eos_policy == EosPolicy::kHonor) return absl::OkStatus();
  const std::string field(GuideFieldName(guide.kind));
  return InvalidArgument(
      Reason::kConflictingOptions, field,
      absl::StrCat(field, " ends the answer where it is complete, and eos_policy ",
                   std::string(EosPolicyName(stop.eos_policy)),
                   " runs it to max_tokens; expected one of the two"));
}

}  // namespace baton
