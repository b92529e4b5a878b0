#include "kernels/cuda/device/shared_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace baton::kernels::cuda {

absl::StatusOr<std::unique_ptr<SharedLibrary>> SharedLibrary::Open(const std::string& name,
                                                                   const std::string& advice) {
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle != nullptr) return std::unique_ptr<SharedLibrary>(new SharedLibrary(name, handle));
  const char* const why = dlerror();
  return absl::FailedPreconditionError(absl::StrCat(
      "a library cannot be loaded: ", why != nullptr ? why : name.c_str(), "; ", advice));
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
