#include "common/config/options.h"

#include <filesystem>

namespace baton {

std::string ServedModelName(const RouterFlags& flags) {
  if (!flags.served_model_name.empty()) return flags.served_model_name;
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(flags.model_dir, error);
  path = path.lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace baton
