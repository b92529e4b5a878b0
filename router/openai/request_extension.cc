// The fields that are objects of settings: "stream_options", and Baton's own "baton".
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "router/openai/json_fields.h"
#include "router/openai/request_draft.h"

namespace baton {
namespace {

using BodyJson = nlohmann::json;

absl::StatusOr<v1::EosPolicy> ExtensionPolicy(const BodyJson& value) {
  if (value == "honor") return v1::EOS_POLICY_HONOR;
  if (value == "continue") return v1::EOS_POLICY_IGNORE_CONTINUE;
  if (value == "mask") return v1::EOS_POLICY_IGNORE_MASK;
  return InvalidArgument(Reason::kNone, "baton.eos",
                         "baton.eos is none of the policies; expected honor, continue or mask");
}

absl::Status UnknownKey(const std::string& field, std::string_view known) {
  return InvalidArgument(Reason::kNone, field,
                         absl::StrCat("there is no ", field, "; expected ", std::string(known)));
}

absl::Status ReadLengthControl(const BodyJson& value, v1::LengthControl* control) {
  constexpr std::string_view kField = "baton.length_control";
  if (!value.is_object()) return WrongType(kField, value, "an object with target and strength");
  for (const auto& [key, entry] : value.items()) {
    const std::string field = absl::StrCat(std::string(kField), ".", key);
    if (key == "target") {
      BATON_ASSIGN_OR_RETURN(const int32_t target, Int32Of(field, entry));
      control->set_target(target);
    } else if (key == "strength") {
      BATON_ASSIGN_OR_RETURN(const float strength, FloatOf(field, entry));
      control->set_strength(strength);
    } else {
      return UnknownKey(field, "target and strength");
    }
  }
  return absl::OkStatus();
}

absl::Status ReadExtensionKey(const std::string& key, const BodyJson& value, RequestDraft* draft) {
  const std::string field = absl::StrCat("baton.", key);
  v1::GenerationSpec& spec = draft->request.spec;
  if (key == "eos_steps") {
    BATON_ASSIGN_OR_RETURN(const bool steps, BoolOf(field, value));
    spec.mutable_eos()->set_steps(steps);
  } else if (key == "predict") {
    BATON_ASSIGN_OR_RETURN(const bool predict, BoolOf(field, value));
    spec.mutable_eos()->set_predict(predict);
  } else if (key == "predict_every") {
    BATON_ASSIGN_OR_RETURN(const int32_t every, Int32Of(field, value));
    spec.mutable_eos()->set_predict_every(every);
  } else if (key == "eos") {
    BATON_ASSIGN_OR_RETURN(draft->eos, ExtensionPolicy(value));
  } else if (key == "beam_width") {
    BATON_ASSIGN_OR_RETURN(const int32_t width, Int32Of(field, value));
    spec.mutable_sampling()->set_beam_width(width);
  } else if (key == "tag") {
    BATON_ASSIGN_OR_RETURN(const std::string tag, StringOf(field, value));
    spec.set_tag(tag);
  } else if (key == "length_control") {
    return ReadLengthControl(value, spec.mutable_stop()->mutable_length_control());
  } else {
    return UnknownKey(field,
                      "eos_steps, predict, predict_every, eos, tag, beam_width, length_control");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadStreamOptions(const BodyJson& value, RequestDraft* draft) {
  if (!value.is_object()) return WrongType("stream_options", value, "an object");
  draft->has_stream_options = true;
  OpenAiShape& shape = draft->request.shape;
  for (const auto& [key, entry] : value.items()) {
    const std::string field = absl::StrCat("stream_options.", key);
    if (entry.is_null()) continue;
    if (key == "include_usage") {
      BATON_ASSIGN_OR_RETURN(shape.include_usage, BoolOf(field, entry));
    } else if (key == "continuous_usage_stats") {
      BATON_ASSIGN_OR_RETURN(shape.continuous_usage, BoolOf(field, entry));
    } else {
      draft->request.ignored.push_back(field);
    }
  }
  return absl::OkStatus();
}

absl::Status ReadExtension(const BodyJson& value, RequestDraft* draft) {
  if (!value.is_object()) return WrongType("baton", value, "an object");
  draft->request.shape.extension = true;
  for (const auto& [key, entry] : value.items()) {
    if (entry.is_null()) continue;
    BATON_RETURN_IF_ERROR(ReadExtensionKey(key, entry, draft));
  }
  return absl::OkStatus();
}

}  // namespace baton
