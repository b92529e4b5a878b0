#include "tools/serve/default_load_cache.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "spdlog/spdlog.h"

namespace baton {

namespace {

// Says why the workers pack weights of their own.
std::string None(const std::string& why) {
  spdlog::info("weights are not shared by workers or starts: {}; --load-cache DIR names a folder",
               why);
  return "";
}

}  // namespace

std::string DefaultLoadCache(const char* xdg_cache_home, const char* home) {
  std::filesystem::path folder;
  if (xdg_cache_home != nullptr && xdg_cache_home[0] == '/') {
    folder = xdg_cache_home;
  } else if (home != nullptr && home[0] == '/') {
    folder = std::filesystem::path(home) / ".cache";
  } else {
    return None("neither XDG_CACHE_HOME nor HOME is an absolute path");
  }
  folder /= "baton";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (access(folder.c_str(), W_OK | X_OK) == 0) return folder.string();
  return None(folder.string() + " cannot be made or written");
}

}  // namespace baton
