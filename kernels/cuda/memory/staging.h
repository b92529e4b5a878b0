#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/cta/block_data.h"
#include "kernels/cuda/device/runtime.h"

namespace baton::kernels::cuda {

// The staging buffers of another process on this host, mapped into this process.
class MappedBuffers final {
 public:
  MappedBuffers(void* data, int64_t bytes) : data_(data), bytes_(bytes) {}
  ~MappedBuffers();
  MappedBuffers(const MappedBuffers&) = delete;
  MappedBuffers& operator=(const MappedBuffers&) = delete;

  const std::byte* data() const { return static_cast<const std::byte*>(data_); }
  int64_t bytes() const { return bytes_; }

 private:
  void* const data_;
  const int64_t bytes_;
};

// The staging buffers of one GPU, which lie one after the other, and the copies between them, KV
// blocks and the host. Everything is allocated at the start. Copies have a stream of their own and
// every call waits for its copies, so they wait neither for steps nor for what a peer does on
// `stream()`. One thread, which has called BindThread, makes all calls.
class StagingBuffers final {
 public:
  struct Options {
    int device = 0;
    int buffers = 0;
    int64_t buffer_bytes = 0;       // a multiple of 256
    int64_t host_bytes = 0;         // the most that ToHost and FromHost move at once
    bool blocks_elsewhere = false;  // whether some blocks lie in other GPUs
  };
  static absl::StatusOr<std::unique_ptr<StagingBuffers>> Create(const Options& options);

  absl::Status BindThread() const { return SelectDevice(options_.device); }
  std::byte* buffer(int index) const;
  int64_t bytes() const { return options_.buffers * options_.buffer_bytes; }  // of all
  // The stream on which transfers with peers are queued.
  StreamHandle stream() const { return transfers_.handle(); }

  // Copies every part from its `from` to its `to`. With `sums` it returns the BlockChecksum of what
  // each part wrote, which must then be memory of this GPU; without, nothing.
  absl::StatusOr<std::vector<uint64_t>> Copy(std::span<const BlockPart> parts, bool sums);
  // Returns the BlockChecksum of what stands at the `to` of every part, in memory of this GPU.
  absl::StatusOr<std::vector<uint64_t>> Sum(std::span<const BlockPart> parts);
  absl::Status Zero(void* device, int64_t bytes);
  absl::Status FromHost(std::span<const std::byte> host, void* device);
  absl::Status ToHost(const void* device, std::span<std::byte> host);

  // Mark notes the end of what is queued on stream() now, and Reached says whether everything
  // before it has finished. There is a mark for the index of each buffer.
  absl::Status Mark(int index);
  absl::StatusOr<bool> Reached(int index) const;

  // Returns the handle by which another process on this host maps the buffers. UNAVAILABLE where
  // the driver cannot make one.
  absl::StatusOr<std::string> Export() const;
  // Maps the buffers of another process. INVALID_ARGUMENT for a handle of another kind, DATA_LOSS
  // for one of fewer than `bytes`, UNAVAILABLE when the buffers cannot be mapped because they are
  // gone or lie in a GPU out of reach.
  absl::StatusOr<std::unique_ptr<MappedBuffers>> Map(const std::string& handle,
                                                     int64_t bytes) const;
  absl::Status CopyMapped(const MappedBuffers& from, int64_t offset, int64_t bytes, void* to);

 private:
  StagingBuffers(const Options& options, Stream copies, Stream transfers)
      : options_(options), copies_(std::move(copies)), transfers_(std::move(transfers)) {}
  absl::Status Allocate();
  // Takes the parts of other GPUs out of `parts` and queues them.
  absl::StatusOr<std::vector<BlockPart>> QueueElsewhere(std::span<const BlockPart> parts);
  // Queues one list; `launch` gets its address, size and largest part, and where sums go.
  template <typename Launch>
  absl::StatusOr<std::vector<uint64_t>> Run(std::span<const BlockPart> parts, bool sums,
                                            Launch launch);

  const Options options_;
  const Stream copies_;
  const Stream transfers_;
  std::vector<Event> marks_;
  std::unique_ptr<DeviceMemory> ring_;
  std::unique_ptr<DeviceMemory> parts_;       // BlockPart[kMaxParts]
  std::unique_ptr<DeviceMemory> sums_;        // uint64_t[kMaxParts]
  std::unique_ptr<PinnedMemory> host_parts_;  // likewise
  std::unique_ptr<PinnedMemory> host_sums_;
  std::unique_ptr<PinnedMemory> host_bytes_;
};

}  // namespace baton::kernels::cuda
