#include "kernels/cuda/memory/staging.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "kernels/cuda/memory/blocks.h"

namespace baton::kernels::cuda {
namespace {

constexpr size_t kMaxParts = 4096;  // of one launch

// What the text of Export holds.
struct Handle {
  static constexpr uint64_t kMagic = 0x3163'7069'7461'6e62;  // "bnatipc1"
  uint64_t magic = kMagic;
  int64_t bytes = 0;
  cudaIpcMemHandle_t memory{};
};

// An error of a mapping is caused by the peer and is no fault of this device.
absl::Status MappingError(cudaError_t error, std::string_view what) {
  cudaGetLastError();
  return absl::UnavailableError(absl::StrCat(std::string(what), ": ", cudaGetErrorName(error), ", ",
                                             cudaGetErrorString(error),
                                             "; use --kv-transport nccl or grpc"));
}

}  // namespace

MappedBuffers::~MappedBuffers() { cudaIpcCloseMemHandle(data_); }

absl::StatusOr<std::unique_ptr<StagingBuffers>> StagingBuffers::Create(const Options& options) {
  BATON_CHECK(options.buffers > 0 && options.buffer_bytes % 256 == 0) << options.buffer_bytes;
  BATON_RETURN_IF_ERROR(SelectDevice(options.device));
  BATON_ASSIGN_OR_RETURN(Stream copies, Stream::Create());
  BATON_ASSIGN_OR_RETURN(Stream transfers, Stream::Create());
  std::unique_ptr<StagingBuffers> made(
      new StagingBuffers(options, std::move(copies), std::move(transfers)));
  BATON_RETURN_IF_ERROR(made->Allocate());
  return made;
}

absl::Status StagingBuffers::Allocate() {
  BATON_ASSIGN_OR_RETURN(
      ring_, DeviceMemory::Allocate(static_cast<size_t>(bytes()), "--gpu-memory-utilization"));
  BATON_ASSIGN_OR_RETURN(parts_, DeviceMemory::Allocate(kMaxParts * sizeof(BlockPart)));
  BATON_ASSIGN_OR_RETURN(sums_, DeviceMemory::Allocate(kMaxParts * sizeof(uint64_t)));
  BATON_ASSIGN_OR_RETURN(host_parts_, PinnedMemory::Allocate(kMaxParts * sizeof(BlockPart)));
  BATON_ASSIGN_OR_RETURN(host_sums_, PinnedMemory::Allocate(kMaxParts * sizeof(uint64_t)));
  BATON_ASSIGN_OR_RETURN(host_bytes_,
                         PinnedMemory::Allocate(static_cast<size_t>(options_.host_bytes)));
  for (int i = 0; i < options_.buffers; ++i) {
    BATON_ASSIGN_OR_RETURN(Event mark, Event::Create());
    marks_.push_back(std::move(mark));
  }
  // A buffer that no parcel has filled yet must not hold the KV of anybody.
  return Zero(ring_->data(), bytes());
}

std::byte* StagingBuffers::buffer(int index) const {
  return static_cast<std::byte*>(ring_->data()) + index * options_.buffer_bytes;
}

template <typename Launch>
absl::StatusOr<std::vector<uint64_t>> StagingBuffers::Run(std::span<const BlockPart> parts,
                                                          bool sums, Launch launch) {
  std::vector<uint64_t> found;
  auto* const list = static_cast<BlockPart*>(parts_->data());
  auto* const results = sums ? static_cast<uint64_t*>(sums_->data()) : nullptr;
  while (!parts.empty()) {
    const std::span<const BlockPart> batch = parts.first(std::min(parts.size(), kMaxParts));
    parts = parts.subspan(batch.size());
    int64_t largest = 0;
    for (const BlockPart& part : batch) largest = std::max(largest, part.bytes);
    std::memcpy(host_parts_->data(), batch.data(), batch.size_bytes());
    BATON_RETURN_IF_ERROR(
        CopyToDevice(list, host_parts_->data(), batch.size_bytes(), copies_.handle()));
    BATON_RETURN_IF_ERROR(ToStatus(
        launch(list, static_cast<int32_t>(batch.size()), largest, results), "moving KV blocks"));
    if (sums) {
      BATON_RETURN_IF_ERROR(CopyToHost(host_sums_->data(), results, batch.size() * sizeof(uint64_t),
                                       copies_.handle()));
    }
    BATON_RETURN_IF_ERROR(copies_.Synchronize());
    const auto* const first = static_cast<const uint64_t*>(host_sums_->data());
    if (sums) found.insert(found.end(), first, first + batch.size());
  }
  return found;
}

absl::StatusOr<std::vector<BlockPart>> StagingBuffers::QueueElsewhere(
    std::span<const BlockPart> parts) {
  std::vector<BlockPart> here;
  for (const BlockPart& part : parts) {
    cudaPointerAttributes from{}, to{};
    BATON_RETURN_IF_ERROR(ToStatus(cudaPointerGetAttributes(&from, part.from), "finding a block"));
    BATON_RETURN_IF_ERROR(ToStatus(cudaPointerGetAttributes(&to, part.to), "finding a block"));
    if (from.device == options_.device && to.device == options_.device) {
      here.push_back(part);
    } else {
      BATON_RETURN_IF_ERROR(
          CopyAnywhere(part.to, part.from, static_cast<size_t>(part.bytes), copies_.handle()));
    }
  }
  return here;
}

absl::StatusOr<std::vector<uint64_t>> StagingBuffers::Copy(std::span<const BlockPart> parts,
                                                           bool sums) {
  const auto launch = [this](const BlockPart* list, int32_t count, int64_t largest,
                             uint64_t* results) {
    return LaunchCopyParts(list, count, largest, results, copies_.handle());
  };
  if (!options_.blocks_elsewhere) return Run(parts, sums, launch);
  const absl::StatusOr<std::vector<BlockPart>> here = QueueElsewhere(parts);
  absl::Status status = here.status();
  if (status.ok()) status = Run(*here, /*sums=*/false, launch).status();
  // It waits after an error, too: once this has returned, nothing that was queued writes a block.
  status.Update(copies_.Synchronize());
  BATON_RETURN_IF_ERROR(status);
  if (!sums) return std::vector<uint64_t>();
  return Sum(parts);
}

absl::StatusOr<std::vector<uint64_t>> StagingBuffers::Sum(std::span<const BlockPart> parts) {
  return Run(parts, /*sums=*/true,
             [this](const BlockPart* list, int32_t count, int64_t largest, uint64_t* results) {
               return LaunchSumParts(list, count, largest, results, copies_.handle());
             });
}

absl::Status StagingBuffers::Zero(void* device, int64_t bytes) {
  BATON_RETURN_IF_ERROR(Fill(device, 0, static_cast<size_t>(bytes), copies_.handle()));
  return copies_.Synchronize();
}

absl::Status StagingBuffers::FromHost(std::span<const std::byte> host, void* device) {
  BATON_CHECK(host.size() <= host_bytes_->size()) << host.size();
  std::memcpy(host_bytes_->data(), host.data(), host.size());
  BATON_RETURN_IF_ERROR(CopyToDevice(device, host_bytes_->data(), host.size(), copies_.handle()));
  return copies_.Synchronize();
}

absl::Status StagingBuffers::ToHost(const void* device, std::span<std::byte> host) {
  BATON_CHECK(host.size() <= host_bytes_->size()) << host.size();
  BATON_RETURN_IF_ERROR(CopyToHost(host_bytes_->data(), device, host.size(), copies_.handle()));
  BATON_RETURN_IF_ERROR(copies_.Synchronize());
  std::memcpy(host.data(), host_bytes_->data(), host.size());
  return absl::OkStatus();
}

absl::Status StagingBuffers::Mark(int index) {
  return marks_[static_cast<size_t>(index)].Record(transfers_.handle());
}

absl::StatusOr<bool> StagingBuffers::Reached(int index) const {
  return marks_[static_cast<size_t>(index)].Done();
}

absl::StatusOr<std::string> StagingBuffers::Export() const {
  Handle handle{.bytes = bytes()};
  const cudaError_t error = cudaIpcGetMemHandle(&handle.memory, ring_->data());
  if (error != cudaSuccess) return MappingError(error, "exporting staging buffers");
  return std::string(reinterpret_cast<const char*>(&handle), sizeof handle);
}

absl::StatusOr<std::unique_ptr<MappedBuffers>> StagingBuffers::Map(const std::string& bytes_of,
                                                                   int64_t bytes) const {
  Handle handle;
  if (bytes_of.size() == sizeof handle) std::memcpy(&handle, bytes_of.data(), sizeof handle);
  if (bytes_of.size() != sizeof handle || handle.magic != Handle::kMagic) {
    return absl::InvalidArgumentError(
        absl::StrCat("a handle of ", bytes_of.size(), " bytes is none of GPU memory, which has ",
                     sizeof handle, "; the other worker's KV is not in a GPU"));
  }
  if (bytes <= 0 || bytes > handle.bytes) {
    return absl::DataLossError(absl::StrCat("the other process's staging buffers have ",
                                            handle.bytes, " bytes, it said ", bytes));
  }
  void* data = nullptr;
  const cudaError_t error =
      cudaIpcOpenMemHandle(&data, handle.memory, cudaIpcMemLazyEnablePeerAccess);
  if (error != cudaSuccess) return MappingError(error, "mapping the other process's buffers");
  return std::make_unique<MappedBuffers>(data, bytes);
}

absl::Status StagingBuffers::CopyMapped(const MappedBuffers& from, int64_t offset, int64_t bytes,
                                        void* to) {
  BATON_RETURN_IF_ERROR(
      CopyAnywhere(to, from.data() + offset, static_cast<size_t>(bytes), copies_.handle()));
  return copies_.Synchronize();
}

}  // namespace baton::kernels::cuda
