#include "common/config/options.h"

#include <filesystem>

namespace baton {

namespace {

std::string NameOf(const std::string& given, const std::string& model_dir) {
  if (!given.empty()) return given;
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(model_dir, error);
  path = path.lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace

std::string ServedModelName(const RouterFlags& flags) {
  return NameOf(flags.served_model_name, flags.model_dir);
}

std::string ServedModelName(const WorkerFlags& flags) {
  return NameOf(flags.served_model_name, flags.model_dir);
}

const std::string& Advertised(const ServerFlags& flags, const std::string& listening) {
  return flags.advertise.empty() ? listening : flags.advertise;
}

std::string DtypeFlagName(DtypeFlag dtype) {
  if (dtype == DtypeFlag::kAuto) return "auto";
  if (dtype == DtypeFlag::kFloat16) return "float16";
  return dtype == DtypeFlag::kFloat32 ? "float32" : "bfloat16";
}

bool SchedulesAsync(const EngineFlags& flags) {
  if (flags.async_scheduling != AsyncSchedulingFlag::kAuto) {
    return flags.async_scheduling == AsyncSchedulingFlag::kOn;
  }
  return flags.device == DeviceFlag::kCuda;
}

std::string IsaFlagName(IsaFlag isa) {
  if (isa == IsaFlag::kAuto) return "auto";
  return isa == IsaFlag::kAvx512 ? "avx512" : "avx2";
}

}  // namespace baton
