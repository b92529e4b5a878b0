#include "common/base/shown_text.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace baton {
namespace {

constexpr size_t kCharacterBytes = 4;  // of the longest one in UTF-8

bool ContinuesCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Where the character begins that holds the byte at `at`; `at` itself where none does.
size_t BeginOfCharacter(std::string_view text, size_t at) {
  for (size_t begin = at; at - begin < kCharacterBytes; --begin) {
    if (!ContinuesCharacter(text[begin])) return begin;
    if (begin == 0) break;
  }
  return at;
}

// How many bytes of UTF-8 the control character takes that `text` begins with; 0 where it begins
// with another one.
size_t ControlBytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x20 || first == 0x7F) return 1;
  const bool two = first == 0xC2 && text.size() > 1;  // U+0080 to U+009F, which terminals obey
  return two && static_cast<unsigned char>(text[1]) < 0xA0 ? 2 : 0;
}

}  // namespace

std::string ShownText(std::string_view text, size_t bytes_max) {
  const bool cut = text.size() > bytes_max;
  const size_t end = cut ? BeginOfCharacter(text, bytes_max) : text.size();
  return absl::StrCat(absl::CHexEscape({text.data(), end}), cut ? "…" : "");
}

std::string ShownLine(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const size_t control = ControlBytes(text);
    if (control == 0) {
      shown += text[0];
    } else {
      shown += ShownText(text.substr(0, control));
    }
    text.remove_prefix(std::max<size_t>(control, 1));
  }
  return shown;
}

}  // namespace baton
