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

// Brings tensors of a checkpoint to the device, piece by piece: several threads copy a piece into
// pinned memory while the one before is on its way, and the device converts it to the wanted dtype.
class Uploader final {
 public:
  static absl::StatusOr<std::unique_ptr<Uploader>> Create(StreamHandle stream);

  // Sends the part `shard` of `tensor` to `device`, dense and in `dtype`; the shard has no -1 ends.
  // When this returns the tensor has been read, but the device may still be copying.
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
