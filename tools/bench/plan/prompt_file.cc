#include "tools/bench/plan/prompt_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/json_reader.h"
#include "nlohmann/json.hpp"
#include "tools/bench/plan/length_distribution.h"

namespace baton::bench {
namespace {

using Json = nlohmann::json;

absl::Status Bad(const std::string& where, std::string_view found, std::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": found ", std::string(found), "; expected ", std::string(expected)));
}

absl::Status TakeIds(const Json& value, const std::string& where, FilePrompt* prompt) {
  std::vector<int32_t> ids;
  if (!value.is_array()) return Bad(where, ShownJson(value), "a list of token ids");
  for (const Json& id : value) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 ||
        id.get<int64_t>() > std::numeric_limits<int32_t>::max()) {
      return Bad(where, ShownJson(id), "token ids, integers from 0");
    }
    ids.push_back(id.get<int32_t>());
  }
  if (ids.empty()) return Bad(where, "no token ids", "at least one");
  prompt->prompt = std::move(ids);
  return absl::OkStatus();
}

absl::Status TakeKey(const std::string& key, const Json& value, const std::string& where,
                     FilePrompt* prompt) {
  if (key == "token_ids") return TakeIds(value, where, prompt);
  if (key == "prompt") {
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
      return Bad(where, ShownJson(value), "a text as prompt");
    }
    prompt->prompt = value.get<std::string>();
    return absl::OkStatus();
  }
  if (key == "preset") {
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
      return Bad(where, ShownJson(value), "the name of a preset of sampling, as qa");
    }
    prompt->preset = value.get<std::string>();
    return absl::OkStatus();
  }
  if (key == "max_tokens" || key == "output_tokens") {
    if (!value.is_number_integer() || value.get<int64_t>() < 1 ||
        value.get<int64_t>() > LengthDistribution::kMax) {
      return Bad(where, ShownJson(value), absl::StrCat("a number of tokens from 1 as ", key));
    }
    prompt->max_tokens = value.get<int32_t>();
    return absl::OkStatus();
  }
  return Bad(
      where, absl::StrCat("the key '", key, "'"),
      "prompt or token_ids, max_tokens or output_tokens if the line has a length, and preset if "
      "it is drawn by one");
}

absl::StatusOr<FilePrompt> ParseLine(std::string_view line, const std::string& where) {
  const absl::StatusOr<Json> parsed = ParseJsonObjectLine(line);
  if (!parsed.ok()) {
    return Bad(where, std::string(parsed.status().message()),
               R"(a JSON object like {"prompt": "Once upon a time"})");
  }
  const Json& object = *parsed;
  if (object.contains("prompt") == object.contains("token_ids")) {
    return Bad(where, object.contains("prompt") ? "both prompt and token_ids" : "no prompt",
               "one of prompt and token_ids");
  }
  if (object.contains("max_tokens") && object.contains("output_tokens")) {
    return Bad(where, "both max_tokens and output_tokens", "one of them");
  }
  FilePrompt prompt;
  for (const auto& [key, value] : object.items()) {
    BATON_RETURN_IF_ERROR(TakeKey(key, value, where, &prompt));
  }
  return prompt;
}

}  // namespace

absl::StatusOr<std::vector<FilePrompt>> ReadPromptFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat("cannot open the prompts ", path, ": ", std::strerror(errno)));
  }
  std::vector<FilePrompt> prompts;
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    BATON_ASSIGN_OR_RETURN(FilePrompt prompt, ParseLine(line, absl::StrCat(path, ":", number)));
    prompt.line = number;
    prompts.push_back(std::move(prompt));
  }
  if (file.bad()) {
    return absl::NotFoundError(
        absl::StrCat("cannot read the prompts ", path, ": ", std::strerror(errno)));
  }
  if (prompts.empty()) return Bad(path, "no prompts", "at least one line");
  return prompts;
}

}  // namespace baton::bench
