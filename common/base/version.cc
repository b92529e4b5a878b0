#include "common/base/version.h"

namespace baton::base {

std::string_view Version() { return BATON_VERSION; }

std::string_view Compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

std::string_view BuildKind() {
#if defined(__SANITIZE_ADDRESS__)
  return "address sanitizer";
#elif defined(__SANITIZE_THREAD__)
  return "thread sanitizer";
#elif defined(NDEBUG)
  return "release";
#else
  return "debug";
#endif
}

}  // namespace baton::base
