#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"

// The CUDA runtime behind plain C++. This header includes nothing of CUDA, so that code which only
// holds a stream or a buffer compiles anywhere. One thread at a time uses a Stream or an Event.
struct CUstream_st;
struct CUevent_st;

namespace baton::kernels::cuda {

using StreamHandle = CUstream_st*;  // cudaStream_t
using EventHandle = CUevent_st*;    // cudaEvent_t

// Turns a cudaError_t into a Status; `what` says what was being done. Too little memory is
// RESOURCE_EXHAUSTED, no GPU and an old driver are FAILED_PRECONDITION. Errors after which CUDA
// cannot go on (an illegal address, a failed launch, ECC, …) and unknown ones are device faults.
absl::Status ToStatus(int error, std::string_view what);
// Returns the error of this thread's last launch and clears it.
absl::Status LastLaunchStatus(std::string_view what);

struct DeviceInfo {
  int index = 0;
  std::string name;
  int capability_major = 0;
  int capability_minor = 0;
};

// FAILED_PRECONDITION, naming what was found and expected, for a GPU that cannot run the machine
// code of this build.
absl::Status CheckDevice(const DeviceInfo& info);
// Selects GPU `index` for the calling thread and describes it. FAILED_PRECONDITION, with what to
// do, where there is no driver, no GPU, or one that CheckDevice refuses.
absl::StatusOr<DeviceInfo> OpenDevice(int index);
// Selects GPU `index` for the calling thread. Each thread that touches a device does so once.
absl::Status SelectDevice(int index);
absl::StatusOr<int> DeviceCount();
// Which GPU the memory at this address is of. INTERNAL for memory of the host.
absl::StatusOr<int> DeviceOf(const void* memory);

struct DeviceMemoryInfo {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
};
absl::StatusOr<DeviceMemoryInfo> QueryMemory();
// How many bytes of GPU `index` this process holds as DeviceMemory now.
int64_t AllocatedBytes(int index);

// A non-blocking stream of the selected device.
class Stream final {
 public:
  static absl::StatusOr<Stream> Create();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  StreamHandle handle() const { return handle_; }
  absl::Status Synchronize() const;

 private:
  explicit Stream(StreamHandle handle) : handle_(handle) {}
  StreamHandle handle_ = nullptr;
};

// Waits until everything that is queued on the stream has finished.
absl::Status WaitFor(StreamHandle stream);

// A mark in a stream: whether, and when, what was queued before it has finished.
class Event final {
 public:
  enum class Timing { kOff, kOn };
  static absl::StatusOr<Event> Create(Timing timing = Timing::kOff);
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  absl::Status Record(StreamHandle stream);
  absl::StatusOr<bool> Done() const;
  absl::Status Synchronize() const;
  // Both events were made with Timing::kOn, recorded and reached.
  static absl::StatusOr<float> MillisecondsBetween(const Event& begin, const Event& end);

 private:
  explicit Event(EventHandle handle) : handle_(handle) {}
  EventHandle handle_ = nullptr;
};

// Memory of the selected device, 256-byte aligned.
class DeviceMemory final : public Buffer {
 public:
  // RESOURCE_EXHAUSTED says how much is needed, how much is there, and which `flags` ask for less.
  static absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(size_t bytes,
                                                                std::string_view flags = "");
  ~DeviceMemory() override;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* data() const override { return data_; }
  size_t size() const override { return size_; }

 private:
  DeviceMemory(void* data, size_t size, int device) : data_(data), size_(size), device_(device) {}
  void* data_;
  size_t size_;
  int device_;
};

// Page-locked memory of the host, which every device can reach. Copies from and to it do not block.
class PinnedMemory final : public Buffer {
 public:
  static absl::StatusOr<std::unique_ptr<PinnedMemory>> Allocate(size_t bytes);
  ~PinnedMemory() override;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  void* data() const override { return data_; }
  size_t size() const override { return size_; }

 private:
  PinnedMemory(void* data, size_t size) : data_(data), size_(size) {}
  void* data_;
  size_t size_;
};

// These only queue their work on the stream, but host memory that is not pinned makes them block
// until it has been read or written.
absl::Status CopyToDevice(void* device, const void* host, size_t bytes, StreamHandle stream);
absl::Status CopyToHost(void* host, const void* device, size_t bytes, StreamHandle stream);
absl::Status CopyOnDevice(void* to, const void* from, size_t bytes, StreamHandle stream);
// Copies `rows` rows of `width` bytes, which begin `to_pitch` and `from_pitch` bytes apart.
absl::Status CopyRows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                      size_t rows, StreamHandle stream);
absl::Status Fill(void* device, int byte, size_t bytes, StreamHandle stream);
// Fills the first `width` bytes of each of `rows` rows, which begin `pitch` bytes apart.
absl::Status FillRows(void* device, size_t pitch, int byte, size_t width, size_t rows,
                      StreamHandle stream);
// Copies between any two places, whichever GPUs their memory is of.
absl::Status CopyAnywhere(void* to, const void* from, size_t bytes, StreamHandle stream);

}  // namespace baton::kernels::cuda
