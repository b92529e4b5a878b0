#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/nccl/api.h"

namespace baton {

// NCCL, loaded at run time. It stays loaded until the process ends, because its threads may run on.
class NcclLibrary final {
 public:
  // `path` is a file, or empty for libnccl.so.2 where the dynamic linker finds it. NOT_FOUND when
  // it cannot be loaded, FAILED_PRECONDITION when a symbol is missing or it is older than kOldest.
  // The message says what was found, what was expected and what to do; `without` is the flag that
  // does without NCCL.
  static absl::StatusOr<std::shared_ptr<const NcclLibrary>> Load(const std::string& path,
                                                                 std::string_view without);

  // As NCCL counts: 22809 is version 2.28.9.
  static constexpr int kOldest = 22800;
  static std::string VersionName(int version);

  const nccl::Calls& calls() const { return calls_; }
  int version() const { return version_; }
  const std::string& path() const { return path_; }

  // OK for kSuccess and kInProgress; for anything else an error with what NCCL says about `call`.
  absl::Status ToStatus(nccl::Result result, const char* call, nccl::Comm* comm) const;

 private:
  NcclLibrary() = default;
  absl::Status Resolve(void* handle);

  nccl::Calls calls_;
  int version_ = 0;
  std::string path_;
};

// NCCL connects two sides only where their whole version is the same.
absl::Status CheckPeerVersion(int own, int peer);

}  // namespace baton
