#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace baton::kernels::cuda {

// The rung that a step of `rows` rows uses, on the ladder of row counts for which products are
// prepared and decode steps are captured. Steps between two rungs use the upper one. Rungs are
// close together where a wasted row is a large part of the work.
inline int64_t RowBucket(int64_t rows) {
  const auto round_up = [rows](int64_t to) { return (rows + to - 1) / to * to; };
  if (rows <= 1) return 1;
  if (rows <= 2) return 2;
  if (rows <= 4) return 4;
  if (rows <= 64) return round_up(8);
  if (rows <= 256) return round_up(32);
  if (rows <= 1024) return round_up(128);
  if (rows <= 4096) return round_up(512);
  return round_up(2048);
}

// All rungs that steps of up to `max_rows` rows use.
inline std::vector<int64_t> RowBuckets(int64_t max_rows) {
  std::vector<int64_t> buckets;
  for (int64_t rows = 1; rows <= std::max<int64_t>(1, max_rows); rows = buckets.back() + 1) {
    buckets.push_back(RowBucket(rows));
  }
  return buckets;
}

// The rows of the captured step that serves `rows` rows, where the largest step has `most`; 0 when
// that is too small for them. Above the last whole rung the captured step is the largest itself,
// for which there is memory.
inline int64_t CaptureRows(int64_t rows, int64_t most) {
  return rows <= most ? std::min(RowBucket(rows), most) : 0;
}

// The least power of two that is not below `count`: the grid of a captured attention launch.
inline int32_t GridBucket(int32_t count) {
  int32_t bucket = 1;
  while (bucket < count) bucket *= 2;
  return bucket;
}

}  // namespace baton::kernels::cuda
