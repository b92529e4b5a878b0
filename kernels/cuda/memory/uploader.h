#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/device/runtime.h"

namespace baton::kernels::cuda {

// Brings checkpoint tensors to the device: several threads copy a piece into pinned memory while
// the one before is on its way, and the device converts to the wanted dtype.
class Uploader final {
 public:
  static absl::StatusOr<std::unique_ptr<Uploader>> Create(StreamHandle stream);

  // The part `shard` (resolved) of `tensor`, dense and in `dtype`, to `device`. Queued: the tensor
  // has been read when it returns, the device may still copy.
  absl::Status Send(const HostTensor& tensor, const Shard& shard, DType dtype, void* device);

 private:
  struct Staging {
    std::unique_ptr<PinnedMemory> memory;
    std::unique_ptr<DeviceMemory> raw;  // before conversion
    std::optional<Event> done;
  };
  explicit Uploader(StreamHandle stream) : stream_(stream) {}
  absl::Status SendRows(const HostTensor& tensor, const Shard& shard, int64_t begin, int64_t count,
                        DType dtype, std::byte* to);

  const StreamHandle stream_;
  std::vector<Staging> staging_;
  size_t turn_ = 0;
};

}  // namespace baton::kernels::cuda
