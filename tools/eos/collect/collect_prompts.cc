#include "tools/eos/collect/collect_prompts.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/config/edit_distance.h"
#include "common/config/flag_set.h"
#include "common/formats/json_reader.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using Json = nlohmann::json;

constexpr size_t kFamilyMax = 64;
constexpr size_t kMostPrompts = 1'000'000;  // six digits in a request id
constexpr std::string_view kInputs[] = {"prompt", "messages", "token_ids"};

std::string Dumped(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status Bad(const std::string& where, std::string_view found, std::string_view expected) {
  return UsageError(where, absl::StrCat("found ", std::string(found)), expected);
}

absl::Status TakeFamily(const Json& value, const std::string& where, CollectPrompt* prompt) {
  const std::string family = value.is_string() ? value.get<std::string>() : "";
  const bool good = !family.empty() && family.size() <= kFamilyMax &&
                    std::all_of(family.begin(), family.end(), [](unsigned char c) {
                      return absl::ascii_isalnum(c) || c == '_' || c == '.';
                    });
  if (!good) {
    return Bad(where, absl::StrCat("the family ", ShownJson(value)),
               "1 to 64 letters, digits, dots and underscores");
  }
  prompt->family = family;
  return absl::OkStatus();
}

absl::Status TakeMaxTokens(const Json& value, const std::string& where, CollectPrompt* prompt) {
  const bool good = value.is_number_integer() && value.get<int64_t>() >= 1 &&
                    value.get<int64_t>() <= std::numeric_limits<int32_t>::max();
  if (!good) {
    return Bad(where, absl::StrCat("max_tokens ", ShownJson(value)), "a number of tokens from 1");
  }
  prompt->max_tokens = value.get<int32_t>();
  return absl::OkStatus();
}

absl::StatusOr<CollectPrompt> ParseLine(std::string_view line, const std::string& where) {
  const absl::StatusOr<Json> object = ParseJsonObjectLine(line);
  if (!object.ok()) {
    return Bad(where, std::string(object.status().message()),
               R"({"prompt": "Once upon a time", "family": "story"})");
  }
  CollectPrompt prompt;
  Json input = Json::object();
  for (const auto& [key, value] : object->items()) {
    if (std::find(std::begin(kInputs), std::end(kInputs), key) != std::end(kInputs)) {
      input[key] = value;
    } else if (key == "family") {
      BATON_RETURN_IF_ERROR(TakeFamily(value, where, &prompt));
    } else if (key == "max_tokens") {
      BATON_RETURN_IF_ERROR(TakeMaxTokens(value, where, &prompt));
    } else {
      const std::string nearest =
          NearestName(key, {"prompt", "messages", "token_ids", "family", "max_tokens"});
      return Bad(
          where, absl::StrCat("the key '", key, "'"),
          nearest.empty() ? "prompt, messages or token_ids, family and max_tokens" : nearest);
    }
  }
  if (input.empty()) return Bad(where, "no prompt", "one of prompt, messages and token_ids");
  prompt.sha256 = Sha256Hex(Dumped(input));
  BATON_ASSIGN_OR_RETURN(prompt.request, ParsePromptLine(Dumped(input), where, {}));
  if (!prompt.request.unsendable.ok()) {
    const absl::Status& why = prompt.request.unsendable;
    return Bad(where, std::string(why.message().data(), why.message().size()),
               "a prompt that the API can carry");
  }
  return prompt;
}

}  // namespace

absl::StatusOr<CollectPrompts> ReadCollectPrompts(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return UsageError(absl::StrCat("cannot read ", path), "it does not exist or is not readable",
                      "--prompts FILE of JSON lines");
  }
  CollectPrompts read;
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    BATON_ASSIGN_OR_RETURN(CollectPrompt prompt, ParseLine(line, absl::StrCat(path, ":", number)));
    read.prompts.push_back(std::move(prompt));
  }
  if (file.bad()) {
    return UsageError(absl::StrCat("cannot read ", path), std::strerror(errno),
                      "--prompts FILE of JSON lines");
  }
  if (read.prompts.empty() || read.prompts.size() > kMostPrompts) {
    return Bad(path, absl::StrCat(read.prompts.size(), " prompts"), "1 to 1000000 of them");
  }
  BATON_ASSIGN_OR_RETURN(read.sha256, Sha256OfFile(path));
  return read;
}

}  // namespace baton
