#pragma once

#include <string_view>

#include "nlohmann/json.hpp"

namespace baton {

inline constexpr int kMaxJsonDepth = 100;

template <typename Json>
struct ShallowJson {
  Json value;             // discarded where the text is no JSON
  bool too_deep = false;  // then `value` lacks what lies too deep
};

// Parses JSON from outside of which nothing lies in more than `max_depth` objects and lists. What
// copies, compares or prints a value calls itself once for each of them, and would end the process
// where there are very many. A text with a NUL, at which the parser would stop reading, is no JSON.
template <typename Json = nlohmann::json>
ShallowJson<Json> ParseShallow(std::string_view text, int max_depth = kMaxJsonDepth) {
  ShallowJson<Json> parsed{.value = Json(Json::value_t::discarded)};
  if (text.find('\0') != std::string_view::npos) return parsed;
  // What lies deeper is not kept, so that it takes no memory either.
  const auto shallow = [&](int around, typename Json::parse_event_t event, const Json&) {
    using Event = typename Json::parse_event_t;
    const bool opens = event == Event::object_start || event == Event::array_start;
    const bool beyond = opens && around >= max_depth;
    parsed.too_deep |= beyond;
    return !beyond;
  };
  parsed.value = Json::parse(text, shallow, /*allow_exceptions=*/false);
  return parsed;
}

}  // namespace baton
