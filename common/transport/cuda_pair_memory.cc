#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/transport/cuda_memory.h"
#include "common/transport/nccl_chunk.h"
#include "kernels/cuda/blocks.h"
#include "kernels/cuda/runtime.h"

namespace baton {
namespace {

namespace cuda = kernels::cuda;

// What kernels read and write directly: page-locked, so that nothing is copied for it.
struct Exchange {
  char header[kChunkHeaderBytes];
  cuda::BlockPart parts[kMaxChunkParts];
  uint64_t sums[kMaxChunkParts];
};

class CudaPairMemory final : public PairMemory {
 public:
  CudaPairMemory(int device, int64_t slot_bytes) : device_(device), slot_bytes_(slot_bytes) {}

  absl::Status Allocate(int slots) {
    BATON_RETURN_IF_ERROR(cuda::SelectDevice(device_));
    BATON_ASSIGN_OR_RETURN(staging_,
                           cuda::DeviceMemory::Allocate(static_cast<size_t>(slots * slot_bytes_),
                                                        "--gpu-memory-utilization"));
    BATON_ASSIGN_OR_RETURN(pinned_, cuda::PinnedMemory::Allocate(sizeof(Exchange)));
    BATON_ASSIGN_OR_RETURN(cuda::Stream transfer, cuda::Stream::Create());
    BATON_ASSIGN_OR_RETURN(cuda::Stream copies, cuda::Stream::Create());
    transfer_ = std::make_unique<cuda::Stream>(std::move(transfer));
    copies_ = std::make_unique<cuda::Stream>(std::move(copies));
    for (int i = 0; i <= slots; ++i) {
      BATON_ASSIGN_OR_RETURN(cuda::Event mark, cuda::Event::Create());
      marks_.push_back(std::move(mark));
    }
    return absl::OkStatus();
  }

  absl::Status BindThread() override { return cuda::SelectDevice(device_); }
  std::byte* slot(int index) override {
    return static_cast<std::byte*>(staging_->data()) + index * slot_bytes_;
  }
  int64_t slot_bytes() const override { return slot_bytes_; }
  nccl::Stream stream() override { return transfer_->handle(); }

  absl::StatusOr<std::vector<uint64_t>> Gather(int slot_index, std::span<const SourcePart> sources,
                                               std::span<const int64_t> offsets,
                                               bool sums) override {
    for (size_t i = 0; i < sources.size(); ++i) {
      exchange()->parts[i] = {.from = sources[i].bytes.data(),
                              .to = slot(slot_index) + offsets[i],
                              .bytes = static_cast<int64_t>(sources[i].bytes.size())};
    }
    return Copy(sources.size(), sums, /*reread=*/false);
  }
  absl::StatusOr<std::vector<uint64_t>> Scatter(int slot_index, std::span<const ScatterPart> parts,
                                                bool sums) override {
    for (size_t i = 0; i < parts.size(); ++i) {
      exchange()->parts[i] = {.from = slot(slot_index) + parts[i].from,
                              .to = parts[i].to.data(),
                              .bytes = static_cast<int64_t>(parts[i].to.size())};
    }
    return Copy(parts.size(), sums, /*reread=*/true);
  }

  absl::Status Clear(int slot_index, int64_t bytes) override {
    BATON_RETURN_IF_ERROR(
        cuda::Fill(slot(slot_index), 0, static_cast<size_t>(bytes), copies_->handle()));
    return copies_->Synchronize();
  }
  absl::Status WriteHeader(int slot_index, const std::string& header) override {
    std::memcpy(exchange()->header, header.data(), header.size());
    BATON_RETURN_IF_ERROR(
        cuda::CopyToDevice(slot(slot_index), exchange()->header, header.size(), copies_->handle()));
    return copies_->Synchronize();
  }
  absl::StatusOr<std::string> ReadHeader(int slot_index) override {
    BATON_RETURN_IF_ERROR(cuda::CopyToHost(exchange()->header, slot(slot_index), kChunkHeaderBytes,
                                           copies_->handle()));
    BATON_RETURN_IF_ERROR(copies_->Synchronize());
    return std::string(exchange()->header, kChunkHeaderBytes);
  }

  absl::Status Mark(int index) override {
    return marks_[static_cast<size_t>(index)].Record(transfer_->handle());
  }
  absl::StatusOr<bool> Reached(int index) override {
    return marks_[static_cast<size_t>(index)].Done();
  }

 private:
  Exchange* exchange() { return static_cast<Exchange*>(pinned_->data()); }

  // `reread`: the sums are of what the destinations hold afterwards, not of what was read.
  absl::StatusOr<std::vector<uint64_t>> Copy(size_t count, bool sums, bool reread) {
    if (count == 0) return std::vector<uint64_t>();
    int64_t largest = 0;
    for (size_t i = 0; i < count; ++i) largest = std::max(largest, exchange()->parts[i].bytes);
    const auto parts = static_cast<int32_t>(count);
    uint64_t* const on_the_way = sums && !reread ? exchange()->sums : nullptr;
    BATON_RETURN_IF_ERROR(cuda::ToStatus(
        cuda::LaunchCopyParts(exchange()->parts, parts, largest, {}, on_the_way, copies_->handle()),
        "copying KV blocks"));
    if (sums && reread) {
      BATON_RETURN_IF_ERROR(
          cuda::ToStatus(cuda::LaunchSumParts(exchange()->parts, parts, largest, exchange()->sums,
                                              copies_->handle()),
                         "summing KV blocks"));
    }
    BATON_RETURN_IF_ERROR(copies_->Synchronize());
    if (!sums) return std::vector<uint64_t>();
    return std::vector<uint64_t>(exchange()->sums, exchange()->sums + count);
  }

  const int device_;
  const int64_t slot_bytes_;
  std::unique_ptr<cuda::DeviceMemory> staging_;
  std::unique_ptr<cuda::PinnedMemory> pinned_;
  std::unique_ptr<cuda::Stream> transfer_, copies_;
  std::vector<cuda::Event> marks_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PairMemory>> MakeCudaPairMemory(int device, int slots,
                                                               int64_t slot_bytes) {
  auto memory = std::make_unique<CudaPairMemory>(device, slot_bytes);
  BATON_RETURN_IF_ERROR(memory->Allocate(slots));
  return memory;
}

}  // namespace baton
