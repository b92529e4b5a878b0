#pragma once

#include <optional>
#include <string_view>

namespace baton {

// The text of the value that `key` has in `object`, as it was written: a JSON schema says by the
// order of its properties in which order an answer has them, and a parsed object forgets it.
// `object` is the text of a JSON object that was parsed without an error, in which no key stands
// twice. Empty when it has no such key.
std::optional<std::string_view> RawMember(std::string_view object, std::string_view key);

}  // namespace baton
