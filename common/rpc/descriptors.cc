#include "common/rpc/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

namespace baton {
namespace {

// For other ports, workers, logs and libraries: an eighth of all, and at least so many.
constexpr size_t kLeastForOthers = 256;
// A thirty-second of all and at least so many, but where that is most of all there is.
constexpr size_t kLeastKept = 32;

}  // namespace

size_t DescriptorLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
}

size_t RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    const rlimit raised{.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &raised);
  }
  return DescriptorLimit();
}

size_t FilesKept(size_t limit) { return std::min(std::max(limit / 32, kLeastKept), limit / 8); }

size_t ConnectionsWithin(size_t wanted, size_t descriptors) {
  const size_t others = std::max(descriptors / 8, kLeastForOthers);
  const size_t left = descriptors > others ? descriptors - others : 0;
  return std::clamp<size_t>(left, 16, std::max<size_t>(wanted, 16));
}

}  // namespace baton
