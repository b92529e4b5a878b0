#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/sample/request_limits.h"
#include "nlohmann/json.hpp"

namespace baton {

// Reads values of fields. What has another type, or does not fit its own, is INVALID_ARGUMENT with
// `field`, what was found and what was expected.

absl::StatusOr<bool> BoolOf(std::string_view field, const nlohmann::json& value);
// A number without a fraction, however it is written.
absl::StatusOr<int64_t> IntegerOf(std::string_view field, const nlohmann::json& value);
absl::StatusOr<int32_t> Int32Of(std::string_view field, const nlohmann::json& value);
// Infinite where the number is too large.
absl::StatusOr<float> FloatOf(std::string_view field, const nlohmann::json& value);
absl::StatusOr<std::string> StringOf(std::string_view field, const nlohmann::json& value);
// Of ids of tokens, all of which fit 32 bits.
absl::StatusOr<std::vector<int32_t>> IdsOf(std::string_view field, const nlohmann::json& value);

absl::Status WrongType(std::string_view field, const nlohmann::json& value,
                       std::string_view expected);
// How errors name an element of a field that is a list, as stop[1].
std::string ElementName(std::string_view field, size_t index);
// The table's CheckLimit, of a field that has another name here than in the table.
absl::Status CheckLimitAs(std::string_view field, RequestLimit limit, int64_t have);
// For a field that is known and has a value that asks for something that there is not.
absl::Status NotThere(std::string_view field, std::string_view instead);

}  // namespace baton
