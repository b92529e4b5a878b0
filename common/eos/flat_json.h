#pragma once

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace baton {

// One value of a flat JSON object.
struct FlatValue {
  enum class Kind { kNull, kBool, kNumber, kText, kNested };
  Kind kind = Kind::kNull;
  bool boolean = false;
  double number = 0;
  std::string text;  // of kText: unescaped; of kNumber: as it stands in the line

  // The value as JSON has it, for messages; "{" or "[" of a nested one.
  std::string Json() const;
};

// Reads a line that is a JSON object without objects or arrays in it, and calls `member` for each
// of its members in their order. The first error of `member` ends the reading and is returned; both
// arguments may be moved from. INVALID_ARGUMENT where the line is no JSON, with the byte, or where
// `member` has nothing against a nested value. No tree is built: logs have millions of lines.
absl::Status ReadFlatJson(
    std::string_view line,
    absl::FunctionRef<absl::Status(std::string& key, FlatValue& value)> member);

}  // namespace baton
