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

std::string DtypeFlagName(DtypeFlag dtype) {
  if (dtype == DtypeFlag::kAuto) return "auto";
  return dtype == DtypeFlag::kFloat32 ? "float32" : "bfloat16";
}

std::string IsaFlagName(IsaFlag isa) {
  if (isa == IsaFlag::kAuto) return "auto";
  return isa == IsaFlag::kAvx512 ? "avx512" : "avx2";
}

}  // namespace baton
