#include "common/http/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

namespace baton {
namespace {

// For other ports, workers, logs and libraries: an eighth of all, and at least so many.
constexpr size_t kLeastForOthers = 256;

}  // namespace

size_t RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  const rlimit raised{.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  return limit.rlim_cur;
}

size_t ConnectionsWithin(size_t wanted, size_t descriptors) {
  const size_t others = std::max(descriptors / 8, kLeastForOthers);
  const size_t left = descriptors > others ? descriptors - others : 0;
  return std::clamp<size_t>(left, 16, std::max<size_t>(wanted, 16));
}

}  // namespace baton
