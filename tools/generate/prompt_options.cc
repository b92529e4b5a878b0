#include "tools/generate/prompt_options.h"

#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/formats/json_reader.h"

namespace baton {
namespace {

using Json = nlohmann::json;
using baton::v1::GenerationSpec;

template <typename T>
absl::StatusOr<T> Integer(const std::string& key, const Json& value, Reason reason) {
  const auto range = absl::StrCat("an integer from ", std::numeric_limits<T>::min(), " to ",
                                  std::numeric_limits<T>::max());
  if (!value.is_number_integer()) return WrongType(reason, key, value, range);
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number <= static_cast<uint64_t>(std::numeric_limits<T>::max())) {
      return static_cast<T>(number);
    }
  } else if (std::is_signed_v<T>) {
    const auto number = value.get<int64_t>();
    if (number >= static_cast<int64_t>(std::numeric_limits<T>::min())) {
      return static_cast<T>(number);
    }
  }
  return WrongType(reason, key, value, range);
}

absl::StatusOr<std::vector<std::string>> Texts(const std::string& key, const Json& value) {
  std::vector<std::string> texts;
  for (const Json& element : value.is_array() ? value : Json::array({value})) {
    if (!element.is_string()) {
      return WrongType(Reason::kConflictingOptions, key, value, "a string or a list of strings");
    }
    texts.push_back(element.get<std::string>());
  }
  return texts;
}

PromptOption IntOption(std::function<void(GenerationSpec*, int32_t)> set, Reason reason) {
  return [=](const std::string& key, const Json& value, GenerationSpec* spec) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(const int32_t number, Integer<int32_t>(key, value, reason));
    set(spec, number);
    return absl::OkStatus();
  };
}

PromptOption FloatOption(std::function<void(v1::SamplingParams*, float)> set) {
  return [=](const std::string& key, const Json& value, GenerationSpec* spec) -> absl::Status {
    if (!value.is_number()) return WrongType(Reason::kInvalidSampling, key, value, "a number");
    set(spec->mutable_sampling(), value.get<float>());
    return absl::OkStatus();
  };
}

PromptOption TextOption(std::function<void(GenerationSpec*, std::string)> set) {
  return [=](const std::string& key, const Json& value, GenerationSpec* spec) -> absl::Status {
    if (!value.is_string()) return WrongType(Reason::kInvalidText, key, value, "a string");
    set(spec, value.get<std::string>());
    return absl::OkStatus();
  };
}

absl::Status SetLengthStrength(const std::string& key, const Json& value, GenerationSpec* spec) {
  if (!value.is_number()) return WrongType(Reason::kInvalidSampling, key, value, "a number");
  spec->mutable_stop()->mutable_length_control()->set_strength(value.get<float>());
  return absl::OkStatus();
}

absl::Status SetSeed(const std::string& key, const Json& value, GenerationSpec* spec) {
  BATON_ASSIGN_OR_RETURN(const uint64_t seed,
                         Integer<uint64_t>(key, value, Reason::kInvalidSampling));
  spec->mutable_sampling()->set_seed(seed);
  return absl::OkStatus();
}

absl::Status SetStop(const std::string& key, const Json& value, GenerationSpec* spec) {
  BATON_ASSIGN_OR_RETURN(const auto texts, Texts(key, value));
  spec->mutable_stop()->mutable_stop()->Assign(texts.begin(), texts.end());
  return absl::OkStatus();
}

absl::Status SetStopTokens(const std::string& key, const Json& value, GenerationSpec* spec) {
  BATON_ASSIGN_OR_RETURN(const auto ids, TokenIdsOf(key, value));
  spec->mutable_stop()->mutable_stop_token_ids()->Assign(ids.begin(), ids.end());
  return absl::OkStatus();
}

absl::Status SetEos(const std::string& key, const Json& value, GenerationSpec* spec) {
  const std::map<std::string, v1::EosPolicy> policies = {
      {"honor", v1::EOS_POLICY_HONOR},
      {"continue", v1::EOS_POLICY_IGNORE_CONTINUE},
      {"mask", v1::EOS_POLICY_IGNORE_MASK}};
  const auto found = value.is_string() ? policies.find(value.get<std::string>()) : policies.end();
  if (found == policies.end()) {
    return WrongType(Reason::kConflictingOptions, key, value, "honor, continue or mask");
  }
  spec->mutable_stop()->set_eos_policy(found->second);
  return absl::OkStatus();
}

absl::Status SetEarlyStopping(const std::string& key, const Json& value, GenerationSpec* spec) {
  v1::SamplingParams* const sampling = spec->mutable_sampling();
  if (value.is_boolean()) {
    sampling->set_early_stopping(value.get<bool>() ? v1::EARLY_STOPPING_TRUE
                                                   : v1::EARLY_STOPPING_FALSE);
  } else if (value == "never") {
    sampling->set_early_stopping(v1::EARLY_STOPPING_NEVER);
  } else {
    return WrongType(Reason::kInvalidSampling, key, value, "false, true or \"never\"");
  }
  return absl::OkStatus();
}

// A guide that is there and empty; in the API it would be none.
absl::Status EmptyGuide(const std::string& key) {
  return InvalidArgument(Reason::kInvalidGuide, key,
                         absl::StrCat(key, " is empty; say what to follow, or leave it out"));
}

PromptOption GuideOption(std::function<void(GenerationSpec*, std::string)> set) {
  return [=](const std::string& key, const Json& value, GenerationSpec* spec) -> absl::Status {
    if (value == "") return EmptyGuide(key);
    return TextOption(set)(key, value, spec);
  };
}

absl::Status SetGuidedChoice(const std::string& key, const Json& value, GenerationSpec* spec) {
  BATON_ASSIGN_OR_RETURN(const auto texts, Texts(key, value));
  if (texts.empty()) return EmptyGuide(key);
  spec->mutable_guided_choice()->Assign(texts.begin(), texts.end());
  return absl::OkStatus();
}

absl::Status SetJsonObject(const std::string& key, const Json& value, GenerationSpec* spec) {
  if (!value.is_boolean()) {
    return WrongType(Reason::kConflictingOptions, key, value, "true or false");
  }
  spec->set_json_object(value.get<bool>());
  return absl::OkStatus();
}

PromptOption EosSwitch(void (v1::EosOptions::*set)(bool)) {
  return [set](const std::string& key, const Json& value, GenerationSpec* spec) {
    if (!value.is_boolean()) {
      return WrongType(Reason::kConflictingOptions, key, value, "true or false");
    }
    (spec->mutable_eos()->*set)(value.get<bool>());
    return absl::OkStatus();
  };
}

}  // namespace

absl::Status WrongType(Reason reason, const std::string& key, const Json& found,
                       std::string_view expected) {
  return InvalidArgument(
      reason, key,
      absl::StrCat(key, " is ", ShownJson(found), "; expected ", std::string(expected)));
}

absl::StatusOr<std::vector<int32_t>> TokenIdsOf(const std::string& key, const Json& value) {
  std::vector<int32_t> ids;
  for (const Json& element : value.is_array() ? value : Json::array({value})) {
    BATON_ASSIGN_OR_RETURN(const int32_t id,
                           Integer<int32_t>(key, element, Reason::kInvalidTokenId));
    ids.push_back(id);
  }
  return ids;
}

const std::map<std::string, PromptOption>& PromptOptions() {
  const Reason sampling = Reason::kInvalidSampling;
  const Reason length = Reason::kInvalidMaxTokens;
  static const auto* const kOptions = new std::map<std::string, PromptOption>{
      {"request_id", TextOption([](auto* spec, auto id) { spec->set_request_id(id); })},
      {"tag", TextOption([](auto* spec, auto tag) { spec->set_tag(tag); })},
      {"preset", TextOption([](auto* spec, auto name) { spec->set_preset(name); })},
      {"guided_json", GuideOption([](auto* spec, auto text) { spec->set_guided_json(text); })},
      {"guided_regex", GuideOption([](auto* spec, auto text) { spec->set_guided_regex(text); })},
      {"guided_grammar",
       GuideOption([](auto* spec, auto text) { spec->set_guided_grammar(text); })},
      {"guided_choice", SetGuidedChoice},
      {"json_object", SetJsonObject},
      {"model", TextOption([](auto* spec, auto name) { spec->set_model(name); })},
      {"max_tokens",
       IntOption([](auto* spec, int n) { spec->mutable_stop()->set_max_tokens(n); }, length)},
      {"min_tokens",
       IntOption([](auto* spec, int n) { spec->mutable_stop()->set_min_tokens(n); }, length)},
      {"length_target",
       IntOption(
           [](auto* spec, int n) { spec->mutable_stop()->mutable_length_control()->set_target(n); },
           sampling)},
      {"length_strength", SetLengthStrength},
      {"top_k",
       IntOption([](auto* spec, int n) { spec->mutable_sampling()->set_top_k(n); }, sampling)},
      {"no_repeat_ngram_size",
       IntOption([](auto* spec, int n) { spec->mutable_sampling()->set_no_repeat_ngram_size(n); },
                 sampling)},
      {"logprobs",
       IntOption([](auto* spec, int n) { spec->mutable_output()->set_logprobs(n); }, sampling)},
      {"temperature", FloatOption([](auto* params, float x) { params->set_temperature(x); })},
      {"top_p", FloatOption([](auto* params, float x) { params->set_top_p(x); })},
      {"min_p", FloatOption([](auto* params, float x) { params->set_min_p(x); })},
      {"repetition_penalty",
       FloatOption([](auto* params, float x) { params->set_repetition_penalty(x); })},
      {"presence_penalty",
       FloatOption([](auto* params, float x) { params->set_presence_penalty(x); })},
      {"frequency_penalty",
       FloatOption([](auto* params, float x) { params->set_frequency_penalty(x); })},
      {"seed", SetSeed},
      {"n", IntOption([](auto* spec, int n) { spec->mutable_sampling()->set_n(n); }, sampling)},
      {"best_of",
       IntOption([](auto* spec, int n) { spec->mutable_sampling()->set_best_of(n); }, sampling)},
      {"beam_width",
       IntOption([](auto* spec, int n) { spec->mutable_sampling()->set_beam_width(n); }, sampling)},
      {"length_penalty", FloatOption([](auto* params, float x) { params->set_length_penalty(x); })},
      {"early_stopping", SetEarlyStopping},
      {"stop", SetStop},
      {"stop_token_id", SetStopTokens},
      {"eos", SetEos},
      {"eos_steps", EosSwitch(&v1::EosOptions::set_steps)},
      {"eos_probe", EosSwitch(&v1::EosOptions::set_probe)},
      {"predict", EosSwitch(&v1::EosOptions::set_predict)}};
  return *kOptions;
}

}  // namespace baton
