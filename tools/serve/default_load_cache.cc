#include "tools/serve/default_load_cache.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace baton {

std::string DefaultLoadCache(const char* xdg_cache_home, const char* home) {
  std::filesystem::path folder;
  if (xdg_cache_home != nullptr && xdg_cache_home[0] == '/') {
    folder = xdg_cache_home;
  } else if (home != nullptr && home[0] == '/') {
    folder = std::filesystem::path(home) / ".cache";
  } else {
    return "";
  }
  folder /= "baton";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return access(folder.c_str(), W_OK | X_OK) == 0 ? folder.string() : "";
}

}  // namespace baton
