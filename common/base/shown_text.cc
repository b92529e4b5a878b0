#include "common/base/shown_text.h"

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

}  // namespace

std::string ShownText(std::string_view text, size_t bytes_max) {
  const bool cut = text.size() > bytes_max;
  const size_t end = cut ? BeginOfCharacter(text, bytes_max) : text.size();
  return absl::StrCat(absl::CHexEscape({text.data(), end}), cut ? "…" : "");
}

}  // namespace baton
