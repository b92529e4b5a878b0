#include "common/formats/json_reader.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/mapped_file.h"
#include "common/formats/shallow_json.h"

namespace baton {
namespace {

constexpr uintmax_t kMaxFileBytes = 16 << 20;
constexpr size_t kMaxShownBytes = 80;

std::string Shown(const nlohmann::json* value) {
  return value == nullptr ? "nothing" : ShownJson(*value);
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, const std::string& where) {
  auto [json, too_deep] = ParseShallow(text);
  if (too_deep) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, " nests more than ", kMaxJsonDepth,
                     " levels, which no such file needs; download it again"));
  }
  if (json.is_discarded()) {
    return absl::InvalidArgumentError(absl::StrCat(where, " is not JSON; download it again"));
  }
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, " holds a JSON ", json.type_name(), "; expected an object"));
  }
  return std::move(json);
}

absl::StatusOr<nlohmann::json> ParseJsonObjectLine(std::string_view line) {
  auto [json, too_deep] = ParseShallow(line);
  if (too_deep) {
    return absl::InvalidArgumentError(
        absl::StrCat("JSON that nests more than ", kMaxJsonDepth, " levels"));
  }
  if (line.find('\0') != std::string_view::npos) return absl::InvalidArgumentError("a byte 0");
  if (!json.is_object()) return absl::InvalidArgumentError("no JSON object");
  return std::move(json);
}

std::string ShownJson(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMaxShownBytes) text = text.substr(0, kMaxShownBytes) + "…";
  return text;
}

absl::StatusOr<nlohmann::json> ReadJsonObject(const std::string& path) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) {
    return absl::NotFoundError(OpenFailure(
        path, error.value(), "give a model directory in Hugging Face form, or a GGUF file"));
  }
  if (size > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", size, " bytes; expected at most ", kMaxFileBytes));
  }
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return absl::NotFoundError(absl::StrCat(path, " cannot be read; check its rights"));
  return ParseJsonObject(text.str(), path);
}

const nlohmann::json* JsonReader::Find(std::string_view key) const {
  const auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

void JsonReader::Fail(std::string_view key, std::string_view expected) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(absl::StrCat(where_, ": \"", std::string(key), "\" is ",
                                                    Shown(Find(key)), "; expected ",
                                                    std::string(expected)));
}

int64_t JsonReader::Int(std::string_view key, int64_t min, int64_t max,
                        std::optional<int64_t> fallback) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr && fallback.has_value()) return *fallback;
  // An unsigned value beyond int64 would wrap in get<int64_t>().
  const bool fits = value != nullptr && value->is_number_integer() &&
                    (!value->is_number_unsigned() || value->get<uint64_t>() <= uint64_t{INT64_MAX});
  const int64_t number = fits ? value->get<int64_t>() : 0;
  if (fits && number >= min && number <= max) return number;
  Fail(key, absl::StrCat("an integer from ", min, " to ", max));
  return fallback.value_or(min);
}

double JsonReader::Number(std::string_view key, double min, double max,
                          std::optional<double> fallback) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr && fallback.has_value()) return *fallback;
  const double number = value != nullptr && value->is_number() ? value->get<double>() : NAN;
  if (number >= min && number <= max) return number;
  Fail(key, absl::StrCat("a number from ", min, " to ", max));
  return fallback.value_or(min);
}

bool JsonReader::Bool(std::string_view key, bool fallback) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  Fail(key, "true or false");
  return fallback;
}

std::string JsonReader::String(std::string_view key, std::string fallback) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return fallback;
  if (value->is_string()) return value->get<std::string>();
  Fail(key, "a string");
  return fallback;
}

std::vector<std::string> JsonReader::Strings(std::string_view key) {
  std::vector<std::string> strings;
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return strings;
  bool good = value->is_array();
  for (size_t i = 0; good && i < value->size(); ++i) {
    good = (*value)[i].is_string();
    if (good) strings.push_back((*value)[i].get<std::string>());
  }
  if (!good) Fail(key, "a list of strings");
  return strings;
}

std::vector<TokenId> JsonReader::TokenIds(std::string_view key, int64_t limit) {
  std::vector<TokenId> ids;
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return ids;
  const nlohmann::json list = value->is_array() ? *value : nlohmann::json::array({*value});
  bool good = true;
  for (const nlohmann::json& entry : list) {
    good =
        good && entry.is_number_unsigned() && entry.get<uint64_t>() < static_cast<uint64_t>(limit);
    if (good) ids.push_back(static_cast<TokenId>(entry.get<uint64_t>()));
  }
  if (!good) Fail(key, absl::StrCat("a token id below ", limit, " or a list of them"));
  return ids;
}

const nlohmann::json* JsonReader::Object(std::string_view key) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr || value->is_object()) return value;
  Fail(key, "an object");
  return nullptr;
}

}  // namespace baton
