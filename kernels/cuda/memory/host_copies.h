#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "kernels/cuda/device/runtime.h"

namespace baton::kernels::cuda {

// Copies between the memory of a GPU and the host's, for transports that move KV blocks by way of
// the host. It has a stream and pinned memory of its own, so that no step waits for a copy. It is
// thread-safe, and each call waits for its copy.
class HostCopies final {
 public:
  // Copies are from and to GPU `device`; none is of more than `most_bytes`.
  static absl::StatusOr<std::unique_ptr<HostCopies>> Create(int device, size_t most_bytes);

  // Reads host.size() bytes from `device`.
  absl::Status Read(const void* device, std::span<std::byte> host);
  // Writes the bytes of `parts`, one after the other, to `device`.
  absl::Status Write(std::span<const std::span<const std::byte>> parts, void* device);

  // Both do the same with device memory in many pieces, which may be of several GPUs.
  absl::Status Read(std::span<const std::span<const std::byte>> device, std::span<std::byte> host);
  absl::Status Write(std::span<const std::span<const std::byte>> host,
                     std::span<const std::span<std::byte>> device);
  // Zeroes the first `width` bytes of each of `rows` rows, which begin `pitch` bytes apart, in the
  // memory of any GPU.
  absl::Status ZeroRows(void* device, size_t pitch, size_t width, size_t rows);

 private:
  HostCopies(int device, Stream stream, std::unique_ptr<PinnedMemory> staging)
      : device_(device), stream_(std::move(stream)), staging_(std::move(staging)) {}
  absl::Status CheckSize(size_t bytes) const;
  // Selects the GPU and returns this object's stream there.
  absl::StatusOr<StreamHandle> StreamOn(int device) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int device_;
  base::Mutex mutex_;
  const Stream stream_;
  // Of other GPUs, made when they are first zeroed: what a GPU fills has to be its own.
  std::map<int, Stream> elsewhere_ ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<PinnedMemory> staging_;  // used under mutex_
};

}  // namespace baton::kernels::cuda
