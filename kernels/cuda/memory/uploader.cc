#include "kernels/cuda/memory/uploader.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>

#include "common/base/status.h"
#include "kernels/cuda/rows/row_ops.h"

namespace baton::kernels::cuda {
namespace {

constexpr size_t kUploadStagings = 2;
constexpr size_t kPieceBytes = size_t{32} << 20;
constexpr int kMaxThreads = 8;  // page faults of a mapped file are what takes the time

int Threads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxThreads);
}

// Asks for all pages at once in place of one fault each. It is only advice: where the kernel cannot
// do it, or the memory is not a file's, reading does what it always does.
void ReadPages(const std::byte* from, size_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(from) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(from) + bytes;
  (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ);
}

// Copies rows [begin, begin + count) of the shard's columns, without gaps.
void CopyRows(const HostTensor& tensor, const Shard& shard, int64_t begin, int64_t count,
              std::byte* out) {
  const size_t element = SizeOf(tensor.dtype);
  const size_t row_bytes = static_cast<size_t>(shard.in_end - shard.in_begin) * element;
  const std::byte* from = static_cast<const std::byte*>(tensor.data) +
                          static_cast<size_t>(begin * tensor.cols + shard.in_begin) * element;
  if (shard.in_end - shard.in_begin == tensor.cols) {
    ReadPages(from, static_cast<size_t>(count) * row_bytes);
    std::memcpy(out, from, static_cast<size_t>(count) * row_bytes);
    return;
  }
  for (int64_t row = 0; row < count; ++row) {
    std::memcpy(out + static_cast<size_t>(row) * row_bytes,
                from + static_cast<size_t>(row * tensor.cols) * element, row_bytes);
  }
}

void CopyRowsInParallel(const HostTensor& tensor, const Shard& shard, int64_t begin, int64_t count,
                        std::byte* out) {
  const size_t row_bytes =
      static_cast<size_t>(shard.in_end - shard.in_begin) * SizeOf(tensor.dtype);
  const int threads = Threads();
  const int64_t part = (count + threads - 1) / threads;
  std::vector<std::thread> readers;
  for (int64_t first = part; first < count; first += part) {
    readers.emplace_back([=, &tensor, &shard] {
      CopyRows(tensor, shard, begin + first, std::min(part, count - first),
               out + static_cast<size_t>(first) * row_bytes);
    });
  }
  CopyRows(tensor, shard, begin, std::min(part, count), out);
  for (std::thread& reader : readers) reader.join();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Uploader>> Uploader::Create(StreamHandle stream) {
  auto uploader = std::unique_ptr<Uploader>(new Uploader(stream));
  for (size_t i = 0; i < kUploadStagings; ++i) {
    Staging& staging = uploader->staging_.emplace_back();
    BATON_ASSIGN_OR_RETURN(staging.memory, PinnedMemory::Allocate(kPieceBytes));
    BATON_ASSIGN_OR_RETURN(staging.raw, DeviceMemory::Allocate(kPieceBytes));
    BATON_ASSIGN_OR_RETURN(staging.done, Event::Create());
  }
  return uploader;
}

absl::Status Uploader::SendRows(const HostTensor& tensor, const Shard& shard, int64_t begin,
                                int64_t count, DType dtype, std::byte* to) {
  const int64_t elements = count * (shard.in_end - shard.in_begin);
  const size_t bytes = static_cast<size_t>(elements) * SizeOf(tensor.dtype);
  Staging& staging = staging_[turn_++ % kUploadStagings];
  BATON_RETURN_IF_ERROR(staging.done->Synchronize());
  CopyRowsInParallel(tensor, shard, begin, count, static_cast<std::byte*>(staging.memory->data()));
  void* const first = tensor.dtype == dtype ? to : staging.raw->data();
  BATON_RETURN_IF_ERROR(CopyToDevice(first, staging.memory->data(), bytes, stream_));
  if (tensor.dtype != dtype) {
    BATON_RETURN_IF_ERROR(
        ToStatus(LaunchConvert(first, tensor.dtype, to, dtype, elements, stream_), "converting"));
  }
  return staging.done->Record(stream_);
}

absl::Status Uploader::Send(const HostTensor& tensor, const Shard& shard, DType dtype,
                            void* device) {
  const int64_t width = shard.in_end - shard.in_begin;
  const int64_t row_bytes = width * static_cast<int64_t>(SizeOf(tensor.dtype));
  if (row_bytes > static_cast<int64_t>(kPieceBytes)) {
    return absl::InvalidArgumentError(
        "a row of a weight is longer than a staging buffer of 32 MiB");
  }
  const int64_t rows = std::max<int64_t>(1, static_cast<int64_t>(kPieceBytes) / row_bytes);
  std::byte* to = static_cast<std::byte*>(device);
  for (int64_t begin = shard.out_begin; begin < shard.out_end; begin += rows) {
    const int64_t count = std::min(rows, shard.out_end - begin);
    BATON_RETURN_IF_ERROR(SendRows(tensor, shard, begin, count, dtype, to));
    to += static_cast<size_t>(count * width) * SizeOf(dtype);
  }
  return absl::OkStatus();
}

}  // namespace baton::kernels::cuda
