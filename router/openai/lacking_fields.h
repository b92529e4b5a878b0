#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"

namespace baton {

// Whether OpenAI or vLLM have a field of this name that Baton has not.
bool IsLackingField(std::string_view name);
// UNIMPLEMENTED, UNSUPPORTED_FIELD unless `value` asks for nothing: null, or what the field means
// when it is left out.
absl::Status CheckLackingField(std::string_view name, const nlohmann::json& value);
// Whether the field is taken and changes nothing, whatever it says.
bool IsIdleField(std::string_view name);

}  // namespace baton
