#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::kernels::cuda {

// A library that is looked up when it is first needed (cuBLASLt, NCCL), so that a binary starts,
// and says what is missing, on a machine without it. The dynamic linker's rules hold:
// LD_LIBRARY_PATH, then the binary's own search path, then the system's.
class SharedLibrary final {
 public:
  // The first of `names` that loads. FAILED_PRECONDITION naming all that were tried, why each
  // failed and `advice`.
  static absl::StatusOr<std::shared_ptr<SharedLibrary>> Open(const std::vector<std::string>& names,
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
  const std::string& name() const { return name_; }

 private:
  SharedLibrary(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}
  absl::StatusOr<void*> Address(const char* name) const;

  const std::string name_;
  void* const handle_;
};

}  // namespace baton::kernels::cuda
