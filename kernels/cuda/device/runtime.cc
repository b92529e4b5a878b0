#include "kernels/cuda/device/runtime.h"

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "kernels/cuda/device/architectures.h"
#include "kernels/step_check.h"

namespace baton::kernels::cuda {
namespace {

// Turns 13000 into "13.0".
std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

absl::Status NoDevice(std::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat(std::string(why), "; use a machine with an NVIDIA GPU, or --device cpu"));
}

absl::Status OldDriver() {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  if (driver == 0) {
    return NoDevice("no NVIDIA driver was found (libcuda.so.1 cannot be loaded)");
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the NVIDIA driver is too old: it is for CUDA ", VersionText(driver),
                   ", expected ", VersionText(CUDART_VERSION),
                   " or newer (driver 580); update the driver, or use --device cpu"));
}

// Checks the result of a call of the runtime.
absl::Status Check(cudaError_t error, std::string_view what) {
  return error == cudaSuccess ? absl::OkStatus() : ToStatus(error, what);
}

constexpr int kMaxDevices = 64;

std::atomic<int64_t>& Allocated(int device) {
  static std::array<std::atomic<int64_t>, kMaxDevices> bytes;
  return bytes[static_cast<size_t>(device) % kMaxDevices];
}

}  // namespace

absl::Status ToStatus(int error, std::string_view what) {
  const auto code = static_cast<cudaError_t>(error);
  switch (code) {
    case cudaSuccess:
      return absl::OkStatus();
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorUnsupportedPtxVersion:
      return OldDriver();
    case cudaErrorNoDevice:
      return NoDevice("no NVIDIA GPU is visible (see CUDA_VISIBLE_DEVICES)");
    case cudaErrorMemoryAllocation:
      return absl::ResourceExhaustedError(
          absl::StrCat(std::string(what), ": the GPU has too little free memory"));
    case cudaErrorInvalidDevice:
      return absl::InvalidArgumentError(
          absl::StrCat(std::string(what), ": there is no GPU of that number"));
    default:
      return DeviceFault(absl::StrCat(std::string(what), ": ", cudaGetErrorName(code), " (", error,
                                      "), ", cudaGetErrorString(code)));
  }
}

absl::Status LastLaunchStatus(std::string_view what) { return Check(cudaGetLastError(), what); }

absl::Status CheckDevice(const DeviceInfo& info) {
  if (RunsOn(BATON_CUDA_ARCHITECTURES, info.capability_major, info.capability_minor)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "GPU ", info.index, " (", info.name, ") has compute capability ", info.capability_major, ".",
      info.capability_minor, "; this build has machine code for ", BATON_CUDA_ARCHITECTURES,
      "; use such a GPU, build with -DBATON_CUDA_ARCHITECTURES=", info.capability_major,
      info.capability_minor, "-real, or use --device cpu"));
}

absl::StatusOr<int> DeviceCount() {
  int count = 0;
  BATON_RETURN_IF_ERROR(Check(cudaGetDeviceCount(&count), "counting the GPUs"));
  return count;
}

absl::Status SelectDevice(int index) {
  return Check(cudaSetDevice(index), absl::StrCat("selecting GPU ", index));
}

absl::StatusOr<int> DeviceOf(const void* memory) {
  cudaPointerAttributes attributes;
  BATON_RETURN_IF_ERROR(
      Check(cudaPointerGetAttributes(&attributes, memory), "asking whose memory an address is"));
  if (attributes.type == cudaMemoryTypeDevice) return attributes.device;
  return absl::InternalError("an address of the host's memory; expected that of a GPU");
}

absl::StatusOr<DeviceInfo> OpenDevice(int index) {
  BATON_ASSIGN_OR_RETURN(const int count, DeviceCount());
  if (index < 0 || index >= count) {
    return absl::InvalidArgumentError(
        absl::StrCat("GPU ", index, " of ", count, " visible ones; expected 0 to ", count - 1));
  }
  BATON_RETURN_IF_ERROR(SelectDevice(index));
  cudaDeviceProp properties;
  BATON_RETURN_IF_ERROR(Check(cudaGetDeviceProperties(&properties, index), "describing the GPU"));
  DeviceInfo info = {.index = index,
                     .name = properties.name,
                     .capability_major = properties.major,
                     .capability_minor = properties.minor};
  BATON_RETURN_IF_ERROR(CheckDevice(info));
  return info;
}

absl::StatusOr<DeviceMemoryInfo> QueryMemory() {
  DeviceMemoryInfo info;
  BATON_RETURN_IF_ERROR(
      Check(cudaMemGetInfo(&info.free_bytes, &info.total_bytes), "asking for free memory"));
  return info;
}

absl::StatusOr<Stream> Stream::Create() {
  cudaStream_t handle = nullptr;
  BATON_RETURN_IF_ERROR(
      Check(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), "making a stream"));
  return Stream(handle);
}

Stream::Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}
Stream::~Stream() {
  if (handle_ != nullptr) cudaStreamDestroy(handle_);
}

absl::Status WaitFor(StreamHandle stream) {
  return Check(cudaStreamSynchronize(stream), "waiting for the GPU");
}

absl::Status Stream::Synchronize() const { return WaitFor(handle_); }

absl::StatusOr<Event> Event::Create(Timing timing) {
  const unsigned flags = timing == Timing::kOn ? cudaEventDefault : cudaEventDisableTiming;
  cudaEvent_t handle = nullptr;
  BATON_RETURN_IF_ERROR(Check(cudaEventCreateWithFlags(&handle, flags), "making an event"));
  return Event(handle);
}

Event::Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
Event& Event::operator=(Event&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}
Event::~Event() {
  if (handle_ != nullptr) cudaEventDestroy(handle_);
}

absl::Status Event::Record(StreamHandle stream) {
  return Check(cudaEventRecord(handle_, stream), "recording an event");
}

absl::StatusOr<bool> Event::Done() const {
  const cudaError_t error = cudaEventQuery(handle_);
  if (error == cudaErrorNotReady) {
    cudaGetLastError();  // or it would be taken for the error of the next launch
    return false;
  }
  BATON_RETURN_IF_ERROR(Check(error, "asking for an event"));
  return true;
}

absl::Status Event::Synchronize() const {
  return Check(cudaEventSynchronize(handle_), "waiting for the GPU");
}

absl::StatusOr<float> Event::MillisecondsBetween(const Event& begin, const Event& end) {
  float milliseconds = 0;
  BATON_RETURN_IF_ERROR(
      Check(cudaEventElapsedTime(&milliseconds, begin.handle_, end.handle_), "timing"));
  return milliseconds;
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> DeviceMemory::Allocate(size_t bytes,
                                                                     std::string_view flags) {
  void* data = nullptr;
  // CUDA gives no address for an allocation of nothing, but everything here has one.
  const cudaError_t error = cudaMalloc(&data, bytes > 0 ? bytes : 1);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    const auto memory = QueryMemory();
    return absl::ResourceExhaustedError(absl::StrCat(
        "the GPU needs ", bytes, " bytes more, has ",
        memory.ok() ? absl::StrCat(memory->free_bytes, " free of ", memory->total_bytes)
                    : "too few free",
        flags.empty() ? "" : "; lower ", std::string(flags)));
  }
  BATON_RETURN_IF_ERROR(Check(error, "allocating GPU memory"));
  int device = 0;
  cudaGetDevice(&device);
  Allocated(device) += static_cast<int64_t>(bytes);
  return std::unique_ptr<DeviceMemory>(new DeviceMemory(data, bytes, device));
}

DeviceMemory::~DeviceMemory() {
  cudaFree(data_);
  Allocated(device_) -= static_cast<int64_t>(size_);
}

int64_t AllocatedBytes(int index) { return Allocated(index); }

absl::StatusOr<std::unique_ptr<PinnedMemory>> PinnedMemory::Allocate(size_t bytes) {
  void* data = nullptr;
  const cudaError_t error = cudaHostAlloc(&data, bytes > 0 ? bytes : 1, cudaHostAllocPortable);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return absl::ResourceExhaustedError(
        absl::StrCat("the host could not pin ", bytes,
                     " bytes of memory for the GPU; free memory, or give the container more"));
  }
  BATON_RETURN_IF_ERROR(Check(error, "pinning host memory"));
  return std::unique_ptr<PinnedMemory>(new PinnedMemory(data, bytes));
}

PinnedMemory::~PinnedMemory() { cudaFreeHost(data_); }

absl::Status CopyToDevice(void* device, const void* host, size_t bytes, StreamHandle stream) {
  return Check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream),
               "copying to the GPU");
}
absl::Status CopyToHost(void* host, const void* device, size_t bytes, StreamHandle stream) {
  return Check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream),
               "copying from the GPU");
}
absl::Status CopyOnDevice(void* to, const void* from, size_t bytes, StreamHandle stream) {
  return Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream),
               "copying on the GPU");
}
absl::Status CopyRows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                      size_t rows, StreamHandle stream) {
  return Check(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, rows,
                                 cudaMemcpyDeviceToDevice, stream),
               "copying rows on the GPU");
}

absl::Status Fill(void* device, int byte, size_t bytes, StreamHandle stream) {
  return Check(cudaMemsetAsync(device, byte, bytes, stream), "filling GPU memory");
}
absl::Status FillRows(void* device, size_t pitch, int byte, size_t width, size_t rows,
                      StreamHandle stream) {
  return Check(cudaMemset2DAsync(device, pitch, byte, width, rows, stream), "filling GPU memory");
}
absl::Status CopyAnywhere(void* to, const void* from, size_t bytes, StreamHandle stream) {
  return Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "copying among GPUs");
}

}  // namespace baton::kernels::cuda
