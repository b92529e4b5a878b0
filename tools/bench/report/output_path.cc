#include "tools/bench/report/output_path.h"

#include <filesystem>

#include "absl/strings/str_cat.h"

namespace baton::bench {

std::string WrittenBefore(const std::string& path, std::string_view suffix) {
  std::error_code unknown;  // then opening it says why
  const std::filesystem::file_status status = std::filesystem::status(path, unknown);
  const bool in_place =
      std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
  return in_place ? path : absl::StrCat(path, std::string(suffix));
}

}  // namespace baton::bench
