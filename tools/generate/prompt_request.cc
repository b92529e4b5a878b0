#include "tools/generate/prompt_request.h"

#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/edit_distance.h"
#include "common/config/flag_set.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using Json = nlohmann::json;
using baton::v1::GenerationSpec;

absl::Status WrongType(Reason reason, const std::string& key, const Json& found,
                       std::string_view expected) {
  const auto replace = Json::error_handler_t::replace;
  return InvalidArgument(reason, key,
                         absl::StrCat(key, " is ", found.dump(-1, ' ', false, replace),
                                      "; expected ", std::string(expected)));
}

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

absl::StatusOr<std::vector<int32_t>> Ids(const std::string& key, const Json& value) {
  std::vector<int32_t> ids;
  for (const Json& element : value.is_array() ? value : Json::array({value})) {
    BATON_ASSIGN_OR_RETURN(const int32_t id,
                           Integer<int32_t>(key, element, Reason::kInvalidTokenId));
    ids.push_back(id);
  }
  return ids;
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

// Writes one option into the spec.
using Setter = std::function<absl::Status(const std::string& key, const Json&, GenerationSpec*)>;

Setter IntOption(std::function<void(GenerationSpec*, int32_t)> set, Reason reason) {
  return [=](const std::string& key, const Json& value, GenerationSpec* spec) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(const int32_t number, Integer<int32_t>(key, value, reason));
    set(spec, number);
    return absl::OkStatus();
  };
}

Setter FloatOption(std::function<void(v1::SamplingParams*, float)> set) {
  return [=](const std::string& key, const Json& value, GenerationSpec* spec) -> absl::Status {
    if (!value.is_number()) return WrongType(Reason::kInvalidSampling, key, value, "a number");
    set(spec->mutable_sampling(), value.get<float>());
    return absl::OkStatus();
  };
}

Setter TextOption(std::function<void(GenerationSpec*, std::string)> set) {
  return [=](const std::string& key, const Json& value, GenerationSpec* spec) -> absl::Status {
    if (!value.is_string()) return WrongType(Reason::kInvalidText, key, value, "a string");
    set(spec, value.get<std::string>());
    return absl::OkStatus();
  };
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
  BATON_ASSIGN_OR_RETURN(const auto ids, Ids(key, value));
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

absl::Status SetEosSteps(const std::string& key, const Json& value, GenerationSpec* spec) {
  if (!value.is_boolean()) {
    return WrongType(Reason::kConflictingOptions, key, value, "true or false");
  }
  spec->mutable_eos()->set_steps(value.get<bool>());
  return absl::OkStatus();
}

const std::map<std::string, Setter>& Options() {
  const Reason sampling = Reason::kInvalidSampling;
  const Reason length = Reason::kInvalidMaxTokens;
  static const auto* const kOptions = new std::map<std::string, Setter>{
      {"request_id", TextOption([](auto* spec, auto id) { spec->set_request_id(id); })},
      {"model", TextOption([](auto* spec, auto name) { spec->set_model(name); })},
      {"max_tokens",
       IntOption([](auto* spec, int n) { spec->mutable_stop()->set_max_tokens(n); }, length)},
      {"min_tokens",
       IntOption([](auto* spec, int n) { spec->mutable_stop()->set_min_tokens(n); }, length)},
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
      {"stop", SetStop},
      {"stop_token_id", SetStopTokens},
      {"eos", SetEos},
      {"eos_steps", SetEosSteps}};
  return *kOptions;
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
    BATON_ASSIGN_OR_RETURN(request->input, Ids("token_ids", line["token_ids"]));
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
        Options().at("request_id")("request_id", line["request_id"], &request->spec));
  }
  for (const auto& [key, value] : line.items()) {
    const auto option = Options().find(key);
    if (option == Options().end()) continue;
    BATON_RETURN_IF_ERROR(option->second(key, value, &request->spec));
  }
  BATON_ASSIGN_OR_RETURN(const bool chat, TakeChat(line, chat_by_default));
  return SetInput(line, chat, request);
}

absl::Status CheckKeys(const Json& line, const std::string& where) {
  std::vector<std::string> known(std::begin(kInputs), std::end(kInputs));
  known.emplace_back("chat");
  for (const auto& [key, setter] : Options()) known.push_back(key);
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
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) {
    return UsageError(where, "found no JSON object", R"({"prompt": "Once upon a time"})");
  }
  BATON_RETURN_IF_ERROR(CheckKeys(json, where));
  PromptRequest request{.spec = defaults.spec, .input = {}, .unsendable = {}};
  request.unsendable = FillRequest(json, defaults.chat, &request);
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
  return requests;
}

}  // namespace baton
