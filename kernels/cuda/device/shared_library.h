#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::kernels::cuda {

// A library such as cuBLASLt that is loaded when it is first needed, so that a binary starts, and
// says what is missing, on a machine without it. The dynamic linker's rules hold: it searches
// LD_LIBRARY_PATH, then the binary's own search path, then the system's. What was loaded stays
// until the process ends, because its kernels are registered with the CUDA runtime.
class SharedLibrary final {
 public:
  // FAILED_PRECONDITION when it cannot be loaded: the message says why, then `advice`.
  static absl::StatusOr<std::unique_ptr<SharedLibrary>> Open(const std::string& name,
                                                             const std::string& advice);
  ~SharedLibrary();
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  // The function `name` as `function`'s type; FAILED_PRECONDITION when the library lacks it.
  template <typename Function>
  absl::Status Find(const char* name, Function** function) const {
    absl::StatusOr<void*> address = Address(name);
    if (!address.ok()) return address.status();
    *function = reinterpret_cast<Function*>(*address);
    return absl::OkStatus();
  }

 private:
  SharedLibrary(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}
  absl::StatusOr<void*> Address(const char* name) const;

  const std::string name_;
  void* const handle_;
};

}  // namespace baton::kernels::cuda
