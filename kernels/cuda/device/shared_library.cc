#include "kernels/cuda/device/shared_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace baton::kernels::cuda {

absl::StatusOr<std::shared_ptr<SharedLibrary>> SharedLibrary::Open(
    const std::vector<std::string>& names, const std::string& advice) {
  std::string failures;
  for (const std::string& name : names) {
    void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) {
      return std::shared_ptr<SharedLibrary>(new SharedLibrary(name, handle));
    }
    const char* const why = dlerror();
    absl::StrAppend(&failures, failures.empty() ? "" : "; ", why != nullptr ? why : name.c_str());
  }
  return absl::FailedPreconditionError(
      absl::StrCat("a library cannot be loaded: ", failures, "; ", advice));
}

SharedLibrary::~SharedLibrary() { dlclose(handle_); }

absl::StatusOr<void*> SharedLibrary::Address(const char* name) const {
  void* const address = dlsym(handle_, name);
  if (address == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(name_, " has no function ", name, "; expected a newer version of it"));
  }
  return address;
}

}  // namespace baton::kernels::cuda
