#include "common/nccl/library.h"

#include <dlfcn.h>

namespace baton {
namespace {

constexpr char kDefaultName[] = "libnccl.so.2";

template <typename Function>
absl::Status Find(void* handle, const std::string& path, const char* symbol, Function** function) {
  void* const address = dlsym(handle, symbol);
  if (address == nullptr) {
    return absl::FailedPreconditionError(path + " has no symbol " + symbol +
                                         "; expected NCCL 2.28 or newer (nvidia-nccl-cu13)");
  }
  *function = reinterpret_cast<Function*>(address);
  return absl::OkStatus();
}

}  // namespace

std::string NcclLibrary::VersionName(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

absl::Status NcclLibrary::Resolve(void* handle) {
  absl::Status status;
  const auto find = [&](const char* symbol, auto** function) {
    if (status.ok()) status = Find(handle, path_, symbol, function);
  };
  find("ncclGetVersion", &calls_.get_version);
  find("ncclGetUniqueId", &calls_.get_unique_id);
  find("ncclCommInitRankConfig", &calls_.comm_init_rank_config);
  find("ncclCommInitAll", &calls_.comm_init_all);
  find("ncclCommGetAsyncError", &calls_.comm_get_async_error);
  find("ncclCommAbort", &calls_.comm_abort);
  find("ncclSend", &calls_.send);
  find("ncclRecv", &calls_.recv);
  find("ncclAllReduce", &calls_.all_reduce);
  find("ncclAllGather", &calls_.all_gather);
  find("ncclGetErrorString", &calls_.get_error_string);
  find("ncclGetLastError", &calls_.get_last_error);
  return status;
}

absl::StatusOr<std::shared_ptr<const NcclLibrary>> NcclLibrary::Load(const std::string& path,
                                                                     std::string_view without) {
  const std::string name = path.empty() ? kDefaultName : path;
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const why = dlerror();
    return absl::NotFoundError("cannot load NCCL: " + std::string(why == nullptr ? name : why) +
                               "; install NCCL 2.28 or newer (package nvidia-nccl-cu13), name its "
                               "file with --nccl-library, or use " +
                               std::string(without));
  }
  std::shared_ptr<NcclLibrary> library(new NcclLibrary);
  library->path_ = name;
  absl::Status status = library->Resolve(handle);
  if (status.ok()) {
    status = library->ToStatus(library->calls_.get_version(&library->version_), "ncclGetVersion",
                               nullptr);
  }
  if (status.ok() && library->version_ < kOldest) {
    status = absl::FailedPreconditionError(name + " is NCCL " + VersionName(library->version_) +
                                           "; expected " + VersionName(kOldest) +
                                           " or newer (package nvidia-nccl-cu13)");
  }
  if (!status.ok()) return status;
  return std::shared_ptr<const NcclLibrary>(std::move(library));
}

absl::Status NcclLibrary::ToStatus(nccl::Result result, const char* call, nccl::Comm* comm) const {
  if (result == nccl::kSuccess || result == nccl::kInProgress) return absl::OkStatus();
  std::string message = std::string(call) + ": " + calls_.get_error_string(result);
  const char* const last = comm == nullptr ? nullptr : calls_.get_last_error(comm);
  if (last != nullptr && *last != '\0') message += std::string(" (") + last + ")";
  return absl::InternalError(message);
}

absl::Status CheckPeerVersion(int own, int peer) {
  if (own == peer) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the prefill worker has NCCL " + NcclLibrary::VersionName(peer) + ", the decode worker " +
      NcclLibrary::VersionName(own) + "; install the same version of both");
}

}  // namespace baton
