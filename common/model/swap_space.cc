#include "common/model/swap_space.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

// More than a processor's caches hold, so that what is measured is memory.
constexpr size_t kMeasuredBytes = size_t{64} << 20;
constexpr int kTimes = 3;

// Waits until the device has copied what was queued.
absl::Status Settle(kernels::Backend& backend, const kernels::PagedKv& kv) {
  std::byte first{};
  return backend.Download(kv.arena, 1, &first);
}

absl::StatusOr<double> Seconds(kernels::Backend& backend, const kernels::PagedKv& from,
                               const kernels::PagedKv& to, const kernels::PagedKv& kv,
                               int32_t blocks, const base::Clock& clock) {
  std::vector<kernels::BlockCopy> copies;
  for (int32_t i = 0; i < blocks; ++i) copies.push_back({i, i});
  const base::Instant begin = clock.Now();
  BATON_RETURN_IF_ERROR(backend.CopyBlocks(from, to, copies));
  BATON_RETURN_IF_ERROR(Settle(backend, kv));
  return base::Seconds(clock.Now() - begin) / blocks;
}

}  // namespace

absl::StatusOr<int32_t> SwapBlocksFor(int64_t bytes, const kernels::KvLayout& layout) {
  const auto block_bytes = static_cast<int64_t>(layout.block_bytes());
  if (bytes > 0 && bytes < block_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("--swap-space ", bytes, " holds no block: one block of ", layout.block_size,
                     " tokens takes ", block_bytes, " bytes; raise it, or give 0 for none"));
  }
  return static_cast<int32_t>(std::min<int64_t>(bytes / block_bytes, INT32_MAX - 1));
}

absl::StatusOr<SwapTimes> MeasureSwaps(kernels::Backend& backend, const kernels::PagedKv& kv,
                                       const kernels::PagedKv& host, const base::Clock& clock) {
  const auto enough = static_cast<int32_t>(
      std::clamp<size_t>(kMeasuredBytes / kv.layout.block_bytes(), 1, 1 << 16));
  const int32_t blocks = std::min({enough, kv.num_blocks, host.num_blocks});
  constexpr double kNone = std::numeric_limits<double>::max();
  SwapTimes best = {.out_s = kNone, .in_s = kNone};
  for (int i = 0; i < kTimes; ++i) {
    BATON_ASSIGN_OR_RETURN(const double out, Seconds(backend, kv, host, kv, blocks, clock));
    BATON_ASSIGN_OR_RETURN(const double in, Seconds(backend, host, kv, kv, blocks, clock));
    best = {.out_s = std::min(best.out_s, out), .in_s = std::min(best.in_s, in)};
  }
  return best;
}

}  // namespace baton
