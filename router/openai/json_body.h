#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace baton {

// The JSON object that the body of a request is. INVALID_ARGUMENT, with the place or the key, for
// what is not JSON or not UTF-8, for a key that stands twice in one object, and for more levels or
// values than any request needs: what reading costs grows with the bytes of the body alone.
absl::StatusOr<nlohmann::json> ParseJsonBody(std::string_view body);

}  // namespace baton
