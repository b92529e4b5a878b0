#include "kernels/cuda/device/architectures.h"

#include <cctype>

namespace baton::kernels::cuda {
namespace {

// An entry is digits, the last of which is the minor number; then "a" (for that GPU only) or "f"
// (for its family); then "-real" (machine code), "-virtual" (code that a driver compiles for any
// later GPU) or nothing (both).
bool EntryRunsOn(std::string_view entry, int major, int minor) {
  if (entry == "native" || entry.starts_with("all")) return true;  // what CMake chose is not known
  int number = 0;
  while (!entry.empty() && std::isdigit(static_cast<unsigned char>(entry.front())) != 0) {
    number = number * 10 + (entry.front() - '0');
    entry.remove_prefix(1);
  }
  const int found = major * 10 + minor;
  if (number == 0) return false;
  if (entry.starts_with('a')) return found == number;
  const bool same_major = number / 10 == major && found >= number;
  if (entry.starts_with('f') || entry.ends_with("-real")) return same_major;
  return found >= number;
}

}  // namespace

bool RunsOn(std::string_view architectures, int major, int minor) {
  while (!architectures.empty()) {
    const size_t end = architectures.find(',');
    if (EntryRunsOn(architectures.substr(0, end), major, minor)) return true;
    architectures.remove_prefix(end == std::string_view::npos ? architectures.size() : end + 1);
  }
  return false;
}

}  // namespace baton::kernels::cuda
