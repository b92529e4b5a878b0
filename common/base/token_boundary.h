#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/ids.h"

// What may end with a token: bits of a table by token id, which is made once from a tokenizer
// (common/text/token_boundaries.h) and then travels as plain numbers to those that know no text.
namespace baton {

inline constexpr uint8_t kEndsLine = 1;  // its bytes contain '\n'
inline constexpr uint8_t kEndsSentence =
    2;  // apart from quotes, brackets and spaces, it ends in . ! ?

// The bits of `id`; 0 for ids outside the table, which may be empty.
inline uint8_t BoundaryOf(std::span<const uint8_t> table, TokenId id) {
  const auto at = static_cast<size_t>(id);
  return id >= 0 && at < table.size() ? table[at] : 0;
}

}  // namespace baton
