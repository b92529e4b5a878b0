#include "tools/sim/read_text.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace baton::simulator {

absl::StatusOr<std::string> ReadText(const std::string& path, const std::string& what) {
  std::ifstream file(path, std::ios::binary);
  std::string text, part(size_t{1} << 16, '\0');
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())) || file.gcount() > 0) {
    text.append(part, 0, static_cast<size_t>(file.gcount()));
  }
  // Neither opening nor reading came to the end.
  if (!file.eof()) {
    return absl::NotFoundError(
        absl::StrCat("cannot read ", what, path, ": ", std::strerror(errno)));
  }
  return text;
}

}  // namespace baton::simulator
