#include "common/base/follow_links.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <system_error>

namespace baton {
namespace {

constexpr int kMostLinks = 40;  // as many as Linux follows

}  // namespace

bool IsInProc(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  struct statfs info {};
  return statfs(folder.c_str(), &info) == 0 && info.f_type == PROC_SUPER_MAGIC;
}

std::filesystem::path FollowLinks(std::filesystem::path path) {
  std::error_code unknown;  // then it is as far as one can follow
  for (int links = 0; links < kMostLinks && !IsInProc(path); ++links) {
    const std::filesystem::path target = std::filesystem::read_symlink(path, unknown);
    if (unknown) break;
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return path;
}

}  // namespace baton
