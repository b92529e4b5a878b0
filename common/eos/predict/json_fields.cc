#include "common/eos/predict/json_fields.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

constexpr size_t kShown = 40;  // characters of a value, in messages

std::string Shown(const nlohmann::json* found) {
  if (found == nullptr) return "nothing";
  if (found->is_array()) return absl::StrCat("an array of ", found->size());
  if (found->is_object()) return "an object";
  std::string text = found->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "…";
  return text;
}

}  // namespace

absl::StatusOr<JsonFields> JsonFields::Of(const nlohmann::json& json, std::string path) {
  if (json.is_object()) return JsonFields(json, std::move(path));
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is ", Shown(&json), "; expected an object"));
}

const nlohmann::json* JsonFields::Find(std::string_view key) const {
  const auto found = json_->find(std::string(key));
  return found == json_->end() ? nullptr : &*found;
}

absl::Status JsonFields::Wrong(std::string_view key, std::string_view expected) const {
  return absl::InvalidArgumentError(
      absl::StrCat(PathOf(key), " is ", Shown(Find(key)), "; expected ", std::string(expected)));
}

bool JsonFields::IsNull(std::string_view key) const {
  const nlohmann::json* const found = Find(key);
  return found == nullptr || found->is_null();
}

absl::StatusOr<JsonFields> JsonFields::Object(std::string_view key) const {
  const nlohmann::json* const found = Find(key);
  if (found == nullptr || !found->is_object()) return Wrong(key, "an object");
  return JsonFields(*found, PathOf(key));
}

absl::StatusOr<std::string> JsonFields::Text(std::string_view key) const {
  const nlohmann::json* const found = Find(key);
  if (found == nullptr || !found->is_string()) return Wrong(key, "a string");
  return found->get<std::string>();
}

absl::StatusOr<double> JsonFields::Number(std::string_view key) const {
  const nlohmann::json* const found = Find(key);
  if (found == nullptr || !found->is_number()) return Wrong(key, "a number");
  return found->get<double>();
}

absl::StatusOr<int32_t> JsonFields::Int(std::string_view key, int32_t least, int32_t most) const {
  const nlohmann::json* const found = Find(key);
  const bool in_range = found != nullptr && found->is_number_integer() &&
                        found->get<double>() >= least && found->get<double>() <= most;
  if (!in_range) return Wrong(key, absl::StrCat("a whole number from ", least, " to ", most));
  return found->get<int32_t>();
}

absl::StatusOr<std::vector<double>> JsonFields::Numbers(std::string_view key, int64_t count) const {
  const nlohmann::json* const found = Find(key);
  std::vector<double> numbers;
  bool good = found != nullptr && found->is_array() &&
              (count < 0 || found->size() == static_cast<size_t>(count));
  for (size_t i = 0; good && i < found->size(); ++i) {
    good = (*found)[i].is_number();
    if (good) numbers.push_back((*found)[i].get<double>());
  }
  if (good) return numbers;
  return Wrong(key,
               count < 0 ? "an array of numbers" : absl::StrCat("an array of ", count, " numbers"));
}

absl::StatusOr<std::vector<std::string>> JsonFields::Texts(std::string_view key,
                                                           size_t most) const {
  const nlohmann::json* const found = Find(key);
  bool good = found != nullptr && found->is_array() && found->size() <= most;
  std::vector<std::string> texts;
  for (size_t i = 0; good && i < found->size(); ++i) {
    good = (*found)[i].is_string();
    if (good) texts.push_back((*found)[i].get<std::string>());
  }
  if (good) return texts;
  return Wrong(key, absl::StrCat("an array of at most ", most, " strings"));
}

absl::StatusOr<std::vector<JsonFields>> JsonFields::Objects(std::string_view key,
                                                            size_t most) const {
  const nlohmann::json* const found = Find(key);
  if (found == nullptr || !found->is_array() || found->size() > most) {
    return Wrong(key, absl::StrCat("an array of at most ", most, " objects"));
  }
  std::vector<JsonFields> objects;
  for (size_t i = 0; i < found->size(); ++i) {
    BATON_ASSIGN_OR_RETURN(JsonFields object,
                           Of((*found)[i], absl::StrCat(PathOf(key), "[", i, "]")));
    objects.push_back(std::move(object));
  }
  return objects;
}

absl::StatusOr<std::string> JsonFields::Bytes(std::string_view key) const {
  const nlohmann::json* const found = Find(key);
  std::string bytes;
  if (found == nullptr || !found->is_string() ||
      !absl::Base64Unescape(found->get_ref<const std::string&>(), &bytes)) {
    return Wrong(key, "numbers in base64");
  }
  return bytes;
}

template <typename T>
absl::StatusOr<std::vector<T>> JsonFields::Packed(std::string_view key, int64_t count) const {
  BATON_ASSIGN_OR_RETURN(const std::string bytes, Bytes(key));
  if (bytes.size() % sizeof(T) != 0 ||
      (count >= 0 && bytes.size() != static_cast<size_t>(count) * sizeof(T))) {
    return absl::InvalidArgumentError(absl::StrCat(
        PathOf(key), " holds ", bytes.size(), " bytes; expected ",
        count < 0 ? std::string("a multiple of ") : absl::StrCat(count, " numbers of "),
        sizeof(T)));
  }
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  if constexpr (std::is_floating_point_v<T>) {
    for (const T number : numbers) {
      if (!std::isfinite(number)) {
        return absl::InvalidArgumentError(
            absl::StrCat(PathOf(key), " holds a number that is not finite; expected none"));
      }
    }
  }
  return numbers;
}

template absl::StatusOr<std::vector<float>> JsonFields::Packed(std::string_view, int64_t) const;
template absl::StatusOr<std::vector<double>> JsonFields::Packed(std::string_view, int64_t) const;
template absl::StatusOr<std::vector<int16_t>> JsonFields::Packed(std::string_view, int64_t) const;

}  // namespace baton
