#include "tools/batch/line_key.h"

#include <charconv>

#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"

namespace baton::batch {
namespace {

constexpr std::string_view kPrefix = "line-";

uint64_t Word(std::string_view hex) {
  uint64_t word = 0;
  std::from_chars(hex.data(), hex.data() + hex.size(), word, 16);
  return word;
}

}  // namespace

LineKey KeyOf(std::string_view custom_id, int64_t number) {
  // The first letter keeps the one kind apart from the other.
  const std::string name =
      custom_id.empty() ? absl::StrCat("n", number) : absl::StrCat("c", std::string(custom_id));
  const std::string hex = Sha256Hex(name);
  return {.high = Word(std::string_view(hex).substr(0, 16)),
          .low = Word(std::string_view(hex).substr(16, 16))};
}

std::string AnswerId(int64_t number) { return absl::StrCat(std::string(kPrefix), number); }

int64_t NumberOfAnswerId(std::string_view id) {
  if (!id.starts_with(kPrefix)) return 0;
  id.remove_prefix(kPrefix.size());
  int64_t number = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
  return error == std::errc() && end == id.data() + id.size() && number > 0 ? number : 0;
}

}  // namespace baton::batch
