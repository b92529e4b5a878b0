#pragma once

#include <cstdint>
#include <vector>

namespace baton {

// What a worker tells of the blocks in its prefix cache, as the hashes of block_hash.h: all of
// them, or what changed since an earlier report. Only every `stride`-th block of a chain is told
// of.
struct PrefixReport {
  bool whole = false;    // `added` is all there is
  uint64_t since = 0;    // the version that the changes build on
  uint64_t version = 0;  // of what is known with this report; 0 of none
  int32_t stride = 1;
  std::vector<uint64_t> added, removed;

  // Nothing to tell.
  bool empty() const { return !whole && added.empty() && removed.empty(); }
};

// How many blocks one worker tells of, whatever its pool holds: 64 KiB of hashes.
inline constexpr int32_t kMostReportedBlocks = 8192;

}  // namespace baton
