#include "common/model/kv_arena.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/model/host_limits.h"
#include "kernels/gpu_needs.h"

namespace baton {
namespace {

// RESOURCE_EXHAUSTED when `need` bytes are more than there is where the arena goes.
absl::Status CheckAvailable(const kernels::Backend& backend, double need, int32_t num_blocks) {
  BATON_ASSIGN_OR_RETURN(const auto device, backend.DeviceMemory());
  const int64_t available = device.has_value() ? device->free_bytes : AvailableMemoryBytes();
  if (need <= static_cast<double>(available)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the KV cache of ", num_blocks, " blocks needs ", static_cast<int64_t>(need),
                   " bytes, the ", device.has_value() ? "GPU" : "machine", " has ", available,
                   " available; lower --kv-cache-memory or --kv-cache-tokens",
                   device.has_value() ? ", or --gpu-memory-utilization" : ""));
}

}  // namespace

kernels::KvLayout KvLayoutOf(const ModelConfig& config, const LocalShape& shape,
                             kernels::DType kv_dtype, int32_t block_size) {
  return {.dtype = kv_dtype,
          .block_size = block_size,
          .layers = config.layers,
          .kv_heads = shape.kv_heads,
          .head_dim = config.head_dim};
}

absl::StatusOr<int32_t> BlocksFor(const KvBudget& budget, const kernels::KvLayout& layout) {
  if (budget.tokens.has_value() && budget.memory_bytes.has_value()) {
    return absl::InvalidArgumentError(
        "--kv-cache-tokens and --kv-cache-memory exclude each other; give one of them");
  }
  const int64_t block_bytes = static_cast<int64_t>(layout.block_bytes());
  int64_t blocks = 0;
  if (budget.tokens.has_value()) {
    blocks = *budget.tokens / layout.block_size + (*budget.tokens % layout.block_size > 0 ? 1 : 0);
  } else {
    blocks = budget.memory_bytes.value_or(KvBudget::kDefaultMemoryBytes) / block_bytes;
  }
  if (blocks < 1) {
    if (budget.tokens.has_value()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "a KV cache of ", *budget.tokens, " tokens holds no block; raise --kv-cache-tokens"));
    }
    return absl::ResourceExhaustedError(
        absl::StrCat("a KV cache of ", budget.memory_bytes.value_or(KvBudget::kDefaultMemoryBytes),
                     " bytes holds no block: one block of ", layout.block_size, " tokens takes ",
                     block_bytes, " bytes; raise --kv-cache-memory or lower --block-size"));
  }
  // Block ids are int32; the largest is reserved for "none".
  return static_cast<int32_t>(std::min<int64_t>(blocks, INT32_MAX - 1));
}

absl::StatusOr<int64_t> DeviceKvBytes(const kernels::DeviceMemorySize& device, double share) {
  const int64_t may = static_cast<int64_t>(share * static_cast<double>(device.total_bytes));
  const int64_t own = device.own_bytes + static_cast<int64_t>(kernels::kGpuLibraryBytes);
  const int64_t left = std::min(may - own, device.free_bytes);
  if (left > 0) return left;
  return absl::ResourceExhaustedError(absl::StrFormat(
      "weights, activations and libraries take %d bytes of the GPU, others leave %d of its %d "
      "free, "
      "and --gpu-memory-utilization %g allows %d: nothing is left for the KV cache; raise it above "
      "%.2f, lower --max-num-batched-tokens, or free the GPU",
      own, device.free_bytes, device.total_bytes, share, may,
      static_cast<double>(own) / static_cast<double>(device.total_bytes)));
}

absl::Status CheckSwapSpace(double bytes, int32_t blocks) {
  const int64_t available = AvailableMemoryBytes();
  if (bytes <= static_cast<double>(available)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the swap space of ", blocks, " blocks needs ", static_cast<int64_t>(bytes),
                   " bytes, the machine has ", available, " available; lower --swap-space"));
}

absl::StatusOr<KvArena> KvArena::Create(kernels::Backend& backend, const kernels::KvLayout& layout,
                                        int32_t num_blocks) {
  const double need = static_cast<double>(layout.block_bytes()) * num_blocks;
  BATON_RETURN_IF_ERROR(CheckAvailable(backend, need, num_blocks));
  BATON_ASSIGN_OR_RETURN(auto buffer, backend.Allocate(layout.block_bytes() * num_blocks));
  BATON_RETURN_IF_ERROR(backend.Zero(*buffer));
  return KvArena(std::move(buffer), layout, num_blocks);
}

absl::StatusOr<KvArena> KvArena::CreateOnHost(kernels::Backend& backend,
                                              const kernels::KvLayout& layout, int32_t num_blocks) {
  const size_t need = layout.block_bytes() * static_cast<size_t>(num_blocks);
  BATON_RETURN_IF_ERROR(CheckSwapSpace(static_cast<double>(need), num_blocks));
  auto buffer = backend.AllocateOnHost(need);
  if (!buffer.ok()) {
    return absl::Status(buffer.status().code(),
                        absl::StrCat("the swap space of ", num_blocks,
                                     " blocks: ", std::string(buffer.status().message()),
                                     "; or lower --swap-space"));
  }
  std::memset((*buffer)->data(), 0, need);
  return KvArena(*std::move(buffer), layout, num_blocks);
}

}  // namespace baton
