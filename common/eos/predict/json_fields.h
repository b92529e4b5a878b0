#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace baton {

// Reads the fields of a JSON object. Errors name the path, what is there and what is expected.
class JsonFields final {
 public:
  // An error unless `json`, which outlives this, is an object.
  static absl::StatusOr<JsonFields> Of(const nlohmann::json& json, std::string path);

  bool IsNull(std::string_view key) const;
  absl::StatusOr<JsonFields> Object(std::string_view key) const;
  absl::StatusOr<std::string> Text(std::string_view key) const;
  absl::StatusOr<double> Number(std::string_view key) const;
  absl::StatusOr<int32_t> Int(std::string_view key, int32_t least, int32_t most) const;
  // `count` < 0: any number of them.
  absl::StatusOr<std::vector<double>> Numbers(std::string_view key, int64_t count = -1) const;
  absl::StatusOr<std::vector<std::string>> Texts(std::string_view key, size_t most) const;
  // The elements of an array of objects.
  absl::StatusOr<std::vector<JsonFields>> Objects(std::string_view key, size_t most) const;
  // Numbers of T in base64, little-endian; floating-point ones are finite.
  template <typename T>
  absl::StatusOr<std::vector<T>> Packed(std::string_view key, int64_t count = -1) const;

  const nlohmann::json& json() const { return *json_; }
  const std::string& path() const { return path_; }
  std::string PathOf(std::string_view key) const { return path_ + "." + std::string(key); }
  absl::Status Wrong(std::string_view key, std::string_view expected) const;

 private:
  JsonFields(const nlohmann::json& json, std::string path) : json_(&json), path_(std::move(path)) {}
  // Null when there is none.
  const nlohmann::json* Find(std::string_view key) const;
  absl::StatusOr<std::string> Bytes(std::string_view key) const;

  const nlohmann::json* json_;
  std::string path_;
};

}  // namespace baton
