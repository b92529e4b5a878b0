#include "common/sample/guide_spec.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/sample/request_limits.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

RequestLimit LimitOfGuide(GuideKind kind) {
  switch (kind) {
    case GuideKind::kRegex:
      return RequestLimit::kGuidedRegex;
    case GuideKind::kGrammar:
      return RequestLimit::kGuidedGrammar;
    default:
      return RequestLimit::kGuidedJson;
  }
}

// What a list of choices has, read without keeping any of it.
class ChoiceCount final : public nlohmann::json_sax<nlohmann::json> {
 public:
  int64_t count() const { return count_; }
  int64_t longest() const { return longest_; }

  bool null() override { return Count(0); }
  bool boolean(bool) override { return Count(0); }
  bool number_integer(number_integer_t) override { return Count(0); }
  bool number_unsigned(number_unsigned_t) override { return Count(0); }
  bool number_float(number_float_t, const string_t&) override { return Count(0); }
  bool string(string_t& text) override { return Count(std::ssize(text)); }
  bool binary(binary_t&) override { return Count(0); }
  bool start_object(size_t) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool key(string_t&) override { return true; }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  bool Count(int64_t bytes) {
    ++count_;
    longest_ = std::max(longest_, bytes);
    return true;
  }

  int64_t count_ = 0;
  int64_t longest_ = 0;  // bytes
};

// Whether the list has the right things in it is the compiler's to say. What cannot be counted must
// not come that far.
absl::Status CheckChoices(const std::string& list) {
  ChoiceCount choices;
  if (!nlohmann::json::sax_parse(list, &choices)) {
    return InvalidArgument(Reason::kInvalidGuide, "guided_choice",
                           "guided_choice is no JSON; expected a list of strings that are not "
                           "empty");
  }
  BATON_RETURN_IF_ERROR(CheckLimit(RequestLimit::kGuidedChoices, choices.count()));
  return CheckLimit(RequestLimit::kGuidedChoiceBytes, choices.longest());
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
  if (guide.kind == GuideKind::kChoice) {
    BATON_RETURN_IF_ERROR(CheckChoices(guide.text));
  } else {
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
