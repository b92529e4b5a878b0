#include "tools/serve/binary_folder.h"

#include <cstdlib>
#include <system_error>

namespace baton {

std::filesystem::path BinaryFolder() {
  if (const char* folder = std::getenv("BATON_BIN_DIR"); folder != nullptr && *folder != '\0') {
    return folder;
  }
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

}  // namespace baton
