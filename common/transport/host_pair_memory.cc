#include <algorithm>
#include <utility>

#include "common/transport/nccl_chunk.h"
#include "common/transport/pair_memory.h"
#include "kernels/block_checksum.h"

namespace baton {
namespace {

class HostPairMemory final : public PairMemory {
 public:
  HostPairMemory(int slots, int64_t slot_bytes)
      : slot_bytes_(slot_bytes),
        slots_(static_cast<size_t>(slots),
               std::vector<std::byte>(static_cast<size_t>(slot_bytes))) {}

  absl::Status BindThread() override { return absl::OkStatus(); }
  std::byte* slot(int index) override { return slots_[static_cast<size_t>(index)].data(); }
  int64_t slot_bytes() const override { return slot_bytes_; }
  nccl::Stream stream() override { return nullptr; }

  absl::StatusOr<std::vector<uint64_t>> Gather(int slot_index, std::span<const SourcePart> sources,
                                               std::span<const int64_t> offsets,
                                               bool sums) override {
    std::vector<uint64_t> result;
    for (size_t i = 0; i < sources.size(); ++i) {
      const std::span<const std::byte> bytes = sources[i].bytes;
      std::ranges::copy(bytes, slot(slot_index) + offsets[i]);
      if (sums) result.push_back(kernels::BlockChecksum(bytes.data(), bytes.size()));
    }
    return result;
  }
  absl::Status Clear(int slot_index, int64_t bytes) override {
    std::fill_n(slot(slot_index), bytes, std::byte{0});
    return absl::OkStatus();
  }
  absl::Status WriteHeader(int slot_index, const std::string& header) override {
    std::ranges::copy(std::as_bytes(std::span(header)), slot(slot_index));
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> ReadHeader(int slot_index) override {
    return std::string(reinterpret_cast<const char*>(slot(slot_index)), kChunkHeaderBytes);
  }
  absl::StatusOr<std::vector<uint64_t>> Scatter(int slot_index, std::span<const ScatterPart> parts,
                                                bool sums) override {
    std::vector<uint64_t> result;
    for (const ScatterPart& part : parts) {
      std::copy_n(slot(slot_index) + part.from, part.to.size(), part.to.data());
      if (sums) result.push_back(kernels::BlockChecksum(part.to.data(), part.to.size()));
    }
    return result;
  }
  absl::Status Mark(int) override { return absl::OkStatus(); }
  absl::StatusOr<bool> Reached(int) override { return true; }

 private:
  const int64_t slot_bytes_;
  std::vector<std::vector<std::byte>> slots_;
};

}  // namespace

std::unique_ptr<PairMemory> MakeHostPairMemory(int slots, int64_t slot_bytes) {
  return std::make_unique<HostPairMemory>(slots, slot_bytes);
}

}  // namespace baton
