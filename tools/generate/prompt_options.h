#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/inference.pb.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"

namespace baton {

// Writes the JSON value of one option into a request. An error means that the API has no room for
// such a value; what it can hold is taken unchecked.
using PromptOption = std::function<absl::Status(const std::string& key, const nlohmann::json& value,
                                                baton::v1::GenerationSpec* spec)>;

// The options that a line of a prompts file may have, by their keys: "max_tokens", ...
const std::map<std::string, PromptOption>& PromptOptions();

// The token ids in `value`, which is one id or a list of them.
absl::StatusOr<std::vector<int32_t>> TokenIdsOf(const std::string& key,
                                                const nlohmann::json& value);

// The error "max_tokens is 1.5; expected an integer ...".
absl::Status WrongType(Reason reason, const std::string& key, const nlohmann::json& found,
                       std::string_view expected);

}  // namespace baton
