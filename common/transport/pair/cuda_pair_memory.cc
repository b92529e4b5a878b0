#include "common/transport/pair/cuda_pair_memory.h"

#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/transport/kv_transport.h"
#include "common/transport/pair/pair_parcel.h"
#include "kernels/cuda/memory/host_copies.h"
#include "kernels/cuda/memory/staging.h"

namespace baton {
namespace {

using kernels::cuda::BlockPart;
using kernels::cuda::HostCopies;
using kernels::cuda::MappedBuffers;
using kernels::cuda::StagingBuffers;

class CudaRing final : public MappedRing {
 public:
  CudaRing(StagingBuffers* own, std::unique_ptr<MappedBuffers> mapped)
      : own_(own), mapped_(std::move(mapped)) {}
  int64_t bytes() const override { return mapped_->bytes(); }
  absl::Status CopyOut(int64_t offset, int64_t count, std::byte* to) override {
    return own_->CopyMapped(*mapped_, offset, count, to);
  }

 private:
  StagingBuffers* const own_;
  const std::unique_ptr<MappedBuffers> mapped_;
};

class CudaPairMemory final : public PairMemory {
 public:
  CudaPairMemory(std::unique_ptr<StagingBuffers> staging, bool blocks_elsewhere)
      : staging_(std::move(staging)), blocks_elsewhere_(blocks_elsewhere) {}

  absl::Status BindThread() override { return staging_->BindThread(); }
  std::byte* buffer(int index) override { return staging_->buffer(index); }
  int64_t ring_bytes() const override { return staging_->bytes(); }
  absl::StatusOr<std::string> Export() override { return staging_->Export(); }
  absl::StatusOr<std::unique_ptr<MappedRing>> Map(const std::string& handle,
                                                  int64_t bytes) override {
    BATON_ASSIGN_OR_RETURN(auto mapped, staging_->Map(handle, bytes));
    return std::make_unique<CudaRing>(staging_.get(), std::move(mapped));
  }
  DeviceStream stream() override { return staging_->stream(); }

  absl::StatusOr<std::vector<uint64_t>> Gather(int index, std::span<const SourcePart> sources,
                                               std::span<const int64_t> offsets,
                                               bool sums) override {
    std::vector<BlockPart> runs, wholes;
    for (size_t i = 0; i < sources.size(); ++i) {
      std::byte* to = buffer(index) + offsets[i];
      const auto bytes = static_cast<int64_t>(SizeOf(sources[i].bytes));
      wholes.push_back({.to = to, .bytes = bytes});
      for (const std::span<const std::byte> run : sources[i].bytes) {
        runs.push_back({run.data(), to, static_cast<int64_t>(run.size())});
        to += run.size();
      }
    }
    if (runs.size() == wholes.size()) return staging_->Copy(runs, sums);
    BATON_RETURN_IF_ERROR(staging_->Copy(runs, /*sums=*/false).status());
    if (!sums) return std::vector<uint64_t>();
    return staging_->Sum(wholes);
  }
  absl::StatusOr<std::vector<uint64_t>> Scatter(int index, std::span<const ScatterPart> parts,
                                                bool sums) override {
    std::vector<BlockPart> runs, back, wholes;
    for (const ScatterPart& part : parts) {
      std::byte* staged = buffer(index) + part.from;
      wholes.push_back({.to = staged, .bytes = static_cast<int64_t>(SizeOf(part.to))});
      for (const std::span<std::byte> run : part.to) {
        const auto bytes = static_cast<int64_t>(run.size());
        runs.push_back({staged, run.data(), bytes});
        back.push_back({run.data(), staged, bytes});
        staged += bytes;
      }
    }
    BATON_RETURN_IF_ERROR(staging_->Copy(runs, /*sums=*/false).status());
    if (!sums) return std::vector<uint64_t>();
    if (!blocks_elsewhere_ && runs.size() == wholes.size()) return staging_->Sum(runs);
    // A checksum is computed over one run on this GPU, so what stands in the blocks comes back
    // first.
    BATON_RETURN_IF_ERROR(staging_->Copy(back, /*sums=*/false).status());
    return staging_->Sum(wholes);
  }

  absl::Status Clear(int index, int64_t bytes) override {
    return staging_->Zero(buffer(index), bytes);
  }
  absl::Status WriteHeader(int index, const std::string& header) override {
    return staging_->FromHost(std::as_bytes(std::span(header)), buffer(index));
  }
  absl::StatusOr<std::string> ReadHeader(int index) override {
    std::string header(kParcelHeaderBytes, '\0');
    BATON_RETURN_IF_ERROR(
        staging_->ToHost(buffer(index), std::as_writable_bytes(std::span(header))));
    return header;
  }
  absl::Status Mark(int index) override { return staging_->Mark(index); }
  absl::StatusOr<bool> Reached(int index) override { return staging_->Reached(index); }

 private:
  const std::unique_ptr<StagingBuffers> staging_;
  const bool blocks_elsewhere_;
};

class CudaBlocks final : public BlockAccess {
 public:
  explicit CudaBlocks(std::unique_ptr<HostCopies> copies) : copies_(std::move(copies)) {}

  absl::StatusOr<HostBytes> Read(ConstByteParts parts) const override {
    const size_t bytes = SizeOf(parts);
    std::shared_ptr<std::byte[]> copy(new std::byte[bytes]);  // shared with messages under way
    BATON_RETURN_IF_ERROR(copies_->Read(parts, std::span(copy.get(), bytes)));
    return HostBytes{.parts = {{copy.get(), bytes}}, .copy = std::move(copy)};
  }
  absl::Status Write(const ConstByteParts& from, const ByteParts& to) const override {
    return copies_->Write(from, to);
  }
  absl::Status Zero(const BlockRows& rows, std::span<std::byte> block) const override {
    const size_t row = rows.row_bytes(block.size());
    const size_t used = rows.used_bytes(block.size());
    if (used == row) return absl::OkStatus();
    return copies_->ZeroRows(block.data() + used, row, row - used, static_cast<size_t>(rows.rows));
  }

 private:
  const std::unique_ptr<HostCopies> copies_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PairMemory>> MakeCudaPairMemory(int device, int buffers,
                                                               int64_t buffer_bytes,
                                                               bool blocks_elsewhere) {
  BATON_ASSIGN_OR_RETURN(auto staging,
                         StagingBuffers::Create({.device = device,
                                                 .buffers = buffers,
                                                 .buffer_bytes = buffer_bytes,
                                                 .host_bytes = kParcelHeaderBytes,
                                                 .blocks_elsewhere = blocks_elsewhere}));
  return std::make_unique<CudaPairMemory>(std::move(staging), blocks_elsewhere);
}

absl::StatusOr<std::unique_ptr<BlockAccess>> MakeCudaBlocks(int device) {
  BATON_ASSIGN_OR_RETURN(auto copies, HostCopies::Create(device, kMaxPieceBytes));
  return std::make_unique<CudaBlocks>(std::move(copies));
}

}  // namespace baton
