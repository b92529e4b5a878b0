#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "nlohmann/json.hpp"

namespace baton {

// Parses JSON whose top level is an object. INVALID_ARGUMENT, naming `where`, for anything else and
// for what nests more than 100 levels: code that copies or prints a value goes as deep as it does.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, const std::string& where);

// The same of one line of a user's file. Its error is a phrase that says what was found in place of
// such an object.
absl::StatusOr<nlohmann::json> ParseJsonObjectLine(std::string_view line);

// A value as a message shows it: printable ASCII, of which a long one is cut off.
std::string ShownJson(const nlohmann::json& value);

// Parses a JSON file of at most 16 MiB whose top level is an object. NOT_FOUND when absent.
absl::StatusOr<nlohmann::json> ReadJsonObject(const std::string& path);

// Reads fields of a JSON object with their types and bounds. The first defect is kept in status()
// and names file, key, what was found and what was expected; reads after it return fallbacks, so
// that a caller reads everything and asks once. A null field counts as absent.
class JsonReader final {
 public:
  JsonReader(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  // Whether the key stands there at all, be it as null.
  bool Mentions(std::string_view key) const { return object_.contains(key); }

  int64_t Int(std::string_view key, int64_t min, int64_t max, std::optional<int64_t> fallback);
  double Number(std::string_view key, double min, double max, std::optional<double> fallback);
  bool Bool(std::string_view key, bool fallback);
  std::string String(std::string_view key, std::string fallback);
  std::vector<std::string> Strings(std::string_view key);
  // An id, a list of ids, or nothing; each in [0, limit).
  std::vector<TokenId> TokenIds(std::string_view key, int64_t limit);
  // The object that stands under `key`, or null when it is absent.
  const nlohmann::json* Object(std::string_view key);

  void Fail(std::string_view key, std::string_view expected);
  const absl::Status& status() const { return status_; }
  const std::string& where() const { return where_; }

 private:
  const nlohmann::json* Find(std::string_view key) const;

  const nlohmann::json& object_;
  std::string where_;
  absl::Status status_;
};

}  // namespace baton
