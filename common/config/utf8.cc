#include "common/config/utf8.h"

#include <cstddef>
#include <cstdint>

namespace baton {
namespace {

struct Form {
  size_t bytes;   // of one character; 0 where no character begins so
  uint32_t bits;  // that the first byte gives
  uint32_t least;
};

Form FormOf(uint8_t first) {
  if (first < 0x80) return {1, first, 0};
  if ((first & 0xE0) == 0xC0) return {2, first & 0x1FU, 0x80};
  if ((first & 0xF0) == 0xE0) return {3, first & 0x0FU, 0x800};
  if ((first & 0xF8) == 0xF0) return {4, first & 0x07U, 0x10000};
  return {0, 0, 0};
}

}  // namespace

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const Form form = FormOf(static_cast<uint8_t>(text[0]));
    if (form.bytes == 0 || form.bytes > text.size()) return false;
    uint32_t character = form.bits;
    for (const char c : text.substr(1, form.bytes - 1)) {
      const auto byte = static_cast<uint8_t>(c);
      if ((byte & 0xC0) != 0x80) return false;
      character = character << 6 | (byte & 0x3FU);
    }
    const bool surrogate = character >= 0xD800 && character <= 0xDFFF;
    if (character < form.least || character > 0x10FFFF || surrogate) return false;
    text.remove_prefix(form.bytes);
  }
  return true;
}

}  // namespace baton
