#include "tools/bench/client/open_files.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace baton::bench {
namespace {

// Files that are open beside the connections: standard streams, libraries, results.
constexpr int64_t kOtherFiles = 64;

}  // namespace

absl::Status AllowOpenFiles(int64_t streams) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::InternalError(absl::StrCat("getrlimit: ", std::strerror(errno)));
  }
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
  const auto needed = static_cast<rlim_t>(streams + kOtherFiles);
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      streams, " streams at once need ", needed, " open files and this process may have ",
      limit.rlim_cur, "; ask for fewer streams, or raise the hard limit (ulimit -Hn ", needed,
      " as root, LimitNOFILE= in a unit)"));
}

}  // namespace baton::bench
