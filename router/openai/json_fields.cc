#include "router/openai/json_fields.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/status.h"

namespace baton {
namespace {

using BodyJson = nlohmann::json;

constexpr double kInt64Bound = 9223372036854775808.0;  // 2^63

// As messages show a value: numbers as they are, of the rest the kind.
std::string FoundValue(const BodyJson& value) {
  if (value.is_number()) return value.dump();
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  return absl::StrCat("of the kind ", value.type_name());
}

absl::Status OutOfRange(std::string_view field, const BodyJson& value, int64_t least,
                        int64_t most) {
  const bool below = value.get<double>() < 0;
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.reason = Reason::kLimitExceeded,
       .field = std::string(field),
       .values = {{"have", value.dump()}, {"limit", absl::StrCat(below ? least : most)}}},
      absl::StrCat(std::string(field), " is ", value.dump(), "; expected a whole number from ",
                   least, " to ", most));
}

}  // namespace

absl::Status WrongType(std::string_view field, const BodyJson& value, std::string_view expected) {
  return InvalidArgument(Reason::kNone, field,
                         absl::StrCat(std::string(field), " is ", FoundValue(value), "; expected ",
                                      std::string(expected)));
}

std::string ElementName(std::string_view field, size_t index) {
  return absl::StrCat(std::string(field), "[", index, "]");
}

absl::Status CheckLimitAs(std::string_view field, RequestLimit limit, int64_t have) {
  const absl::Status within = CheckLimit(limit, have);
  if (within.ok()) return within;
  ErrorDetail detail = DetailOf(within);
  const std::string message = absl::StrReplaceAll(
      {within.message().data(), within.message().size()}, {{detail.field, std::string(field)}});
  detail.field = field;
  return MakeError(within.code(), std::move(detail), message);
}

absl::Status NotThere(std::string_view field, std::string_view instead) {
  return MakeError(absl::StatusCode::kUnimplemented,
                   {.reason = Reason::kUnsupportedField, .field = std::string(field)},
                   absl::StrCat(std::string(field), " is not implemented; ", std::string(instead)));
}

absl::StatusOr<bool> BoolOf(std::string_view field, const BodyJson& value) {
  if (value.is_boolean()) return value.get<bool>();
  return WrongType(field, value, "true or false");
}

absl::StatusOr<int64_t> IntegerOf(std::string_view field, const BodyJson& value) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number <= static_cast<uint64_t>(kMost)) return static_cast<int64_t>(number);
    return OutOfRange(field, value, kLeast, kMost);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return WrongType(field, value, "a whole number");
  const auto number = value.get<double>();
  if (number != std::floor(number)) return WrongType(field, value, "a whole number");
  if (number >= -kInt64Bound && number < kInt64Bound) return static_cast<int64_t>(number);
  return OutOfRange(field, value, kLeast, kMost);
}

absl::StatusOr<int32_t> Int32Of(std::string_view field, const BodyJson& value) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int32_t>::min();
  BATON_ASSIGN_OR_RETURN(const int64_t number, IntegerOf(field, value));
  if (number >= kLeast && number <= kMost) return static_cast<int32_t>(number);
  return OutOfRange(field, value, kLeast, kMost);
}

absl::StatusOr<float> FloatOf(std::string_view field, const BodyJson& value) {
  if (!value.is_number()) return WrongType(field, value, "a number");
  const auto number = value.get<double>();
  constexpr double kMost = std::numeric_limits<float>::max();
  if (number > kMost) return std::numeric_limits<float>::infinity();
  if (number < -kMost) return -std::numeric_limits<float>::infinity();
  return static_cast<float>(number);
}

absl::StatusOr<std::string> StringOf(std::string_view field, const BodyJson& value) {
  if (value.is_string()) return value.get<std::string>();
  return WrongType(field, value, "a string");
}

absl::StatusOr<std::vector<int32_t>> IdsOf(std::string_view field, const BodyJson& value) {
  if (!value.is_array()) return WrongType(field, value, "a list of token ids");
  std::vector<int32_t> ids;
  ids.reserve(value.size());
  for (size_t i = 0; i < value.size(); ++i) {
    const auto number = Int32Of(field, value[i]);
    // There may be very many of them, so names are made for errors only.
    if (!number.ok()) return Int32Of(ElementName(field, i), value[i]).status();
    ids.push_back(*number);
  }
  return ids;
}

}  // namespace baton
