#include "common/text/token_boundaries.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace baton {
namespace {

// In UTF-8.
constexpr std::array<std::string_view, 15> kTrailing = {" ", "\t", "\r", "\n", "\"", "'", ")", "]",
                                                        "}", "*",  "_",  "`",  "»",  "”", "’"};
constexpr std::array<std::string_view, 7> kSentenceEnds = {".", "!", "?", "…", "。", "！", "？"};

size_t TrailingBytes(std::string_view text) {
  for (const std::string_view mark : kTrailing) {
    if (text.ends_with(mark)) return mark.size();
  }
  return 0;
}

}  // namespace

uint8_t BoundaryOfBytes(std::string_view bytes) {
  uint8_t bits = bytes.find('\n') != std::string_view::npos ? kEndsLine : 0;
  while (const size_t trailing = TrailingBytes(bytes)) bytes.remove_suffix(trailing);
  if (std::ranges::any_of(kSentenceEnds, [&](auto mark) { return bytes.ends_with(mark); })) {
    bits |= kEndsSentence;
  }
  return bits;
}

std::vector<uint8_t> TokenBoundaries(const Tokenizer& tokenizer) {
  std::vector<uint8_t> table(static_cast<size_t>(std::max(tokenizer.vocab_size(), 0)));
  for (size_t id = 0; id < table.size(); ++id) {
    table[id] = BoundaryOfBytes(tokenizer.TokenBytes(static_cast<TokenId>(id)));
  }
  return table;
}

}  // namespace baton
