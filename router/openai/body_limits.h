#pragma once

#include <string_view>
#include <vector>

#include "common/sample/request_limits.h"
#include "router/openai/openai_request.h"

namespace baton {

// Where in the body of a request a row of the table of limits (common/sample/request_limits.h)
// holds.
struct BodyLimit {
  std::string_view path;  // keys, and [] for every element of a list, with dots between
  RequestLimit limit;
  std::string_view name = {};  // in errors; "" = as in the table
  bool as_json = false;        // may stand as JSON instead of a text, which counts as it is written
};

// One value of a body, and what is bounded of it and in it: of objects and lists the entries, of
// texts the bytes.
struct BoundedValue {
  // The bounds of what stands under a key, or of each element under "[]"; null where there are
  // none.
  const BoundedValue* Inside(std::string_view key) const;

  std::string_view key;
  const BodyLimit* count = nullptr;  // null: unbounded
  const BodyLimit* bytes = nullptr;  // likewise
  std::vector<BoundedValue> inside;
};

// The whole body of a request. Lives as long as the process.
const BoundedValue& BoundedBody(OpenAiApi api);

}  // namespace baton
