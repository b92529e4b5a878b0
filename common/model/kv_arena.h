#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "common/formats/model_config.h"
#include "common/model/weights.h"
#include "kernels/backend.h"
#include "kernels/paged_kv.h"

namespace baton {

// The version of the order of bytes inside a block, which kernels::KvLayout describes. Workers hand
// blocks to each other only where it is equal.
inline constexpr int kKvLayoutVersion = 1;

// The layout of a block of this model on one rank.
kernels::KvLayout KvLayoutOf(const ModelConfig& config, const LocalShape& shape,
                             kernels::DType kv_dtype, int32_t block_size);

// How much KV cache a worker gets. At most one of `tokens` and `memory_bytes` is set. If neither
// is, the cache gets kDefaultMemoryBytes of the host's memory, or, on a device with memory of its
// own, what is left of the share `device_share` of that.
struct KvBudget {
  static constexpr int64_t kDefaultMemoryBytes = int64_t{512} << 20;
  double device_share = 0.9;            // --gpu-memory-utilization
  std::optional<int64_t> tokens;        // --kv-cache-tokens
  std::optional<int64_t> memory_bytes;  // --kv-cache-memory
};

// How many blocks the budget pays for: tokens are rounded up, memory is rounded down.
// INVALID_ARGUMENT for a budget of both kinds, RESOURCE_EXHAUSTED for one below a single block.
absl::StatusOr<int32_t> BlocksFor(const KvBudget& budget, const kernels::KvLayout& layout);

// How many bytes are left for the KV cache when this process may have `share` of a device's memory
// and everything else has its part already. No more than is free, because other processes may be
// there. RESOURCE_EXHAUSTED, with need, have and flag, where nothing is left.
absl::StatusOr<int64_t> DeviceKvBytes(const kernels::DeviceMemorySize& device, double share);

// RESOURCE_EXHAUSTED, with need, have and flag, when the machine has less than `bytes` available
// for so many blocks that are swapped to the host.
absl::Status CheckSwapSpace(double bytes, int32_t blocks);

// The memory in which one rank's KV blocks lie.
class KvArena final {
 public:
  // Allocates and writes every page, so that no request pays for it and a lack of memory shows
  // here. RESOURCE_EXHAUSTED, naming need, have and flag, when the machine has less available.
  static absl::StatusOr<KvArena> Create(kernels::Backend& backend, const kernels::KvLayout& layout,
                                        int32_t num_blocks);

  // The same in memory of the host that blocks are swapped to, for a device as well.
  static absl::StatusOr<KvArena> CreateOnHost(kernels::Backend& backend,
                                              const kernels::KvLayout& layout, int32_t num_blocks);

  const kernels::PagedKv& kv() const { return kv_; }

 private:
  KvArena(std::unique_ptr<kernels::Buffer> buffer, const kernels::KvLayout& layout,
          int32_t num_blocks)
      : buffer_(std::move(buffer)),
        kv_{.arena = static_cast<std::byte*>(buffer_->data()),
            .layout = layout,
            .num_blocks = num_blocks} {}

  std::unique_ptr<kernels::Buffer> buffer_;
  kernels::PagedKv kv_;
};

}  // namespace baton
