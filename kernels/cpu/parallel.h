#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace baton::kernels::cpu {

// Regions always ask for all `threads`, whatever there is to do: OpenMP ends threads and starts
// others when the size of its team changes, which costs more than threads that pass by.

// The grain of items of so many elements that are only laid out or rounded.
inline int64_t LayoutGrain(int64_t elements) {
  return std::max<int64_t>(1, 4096 / std::max<int64_t>(1, elements));
}

// Calls f(begin, end) over contiguous parts of [0, n) in one OpenMP region, at most one part per
// thread and none of much less than `grain` items. Results must not depend on how n is cut.
template <typename F>
void ParallelRanges(int threads, int64_t n, int64_t grain, F f) {
  const int64_t parts = std::min<int64_t>(threads, (n + grain - 1) / grain);
  if (parts <= 1) {
    if (n > 0) f(int64_t{0}, n);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t part = 0; part < parts; ++part) {
    f(n * part / parts, n * (part + 1) / parts);
  }
}

// Calls f(item, thread) for every item of [0, n). Whichever thread is free takes the next one.
template <typename F>
void ParallelItems(int threads, int64_t n, F f) {
  if (threads == 1 || n <= 1) {
    for (int64_t item = 0; item < n; ++item) f(item, 0);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const int thread = omp_get_thread_num();
#pragma omp for schedule(dynamic, 1) nowait
    for (int64_t item = 0; item < n; ++item) f(item, thread);
  }
}

// Calls f(begin, end) over contiguous shares of [0, n), of a product with so many multiply-adds in
// all. There are several for each thread, and whichever is free takes the next one: a thread that
// memory or the machine held up would have the others wait for its half. A product that only reads
// weights has few, because each begins with what nothing fetched ahead.
template <typename F>
void ParallelShares(int threads, int64_t n, int64_t multiply_adds, F f) {
  constexpr int64_t kMultiplyAdds = int64_t{2} << 20;  // of a share: tens of microseconds
  constexpr int64_t kMostPerThread = 16;
  const int64_t wanted = std::max<int64_t>(threads, multiply_adds / kMultiplyAdds);
  const int64_t shares = std::min({wanted, kMostPerThread * threads, n});
  ParallelItems(threads, shares,
                [&](int64_t share, int) { f(n * share / shares, n * (share + 1) / shares); });
}

}  // namespace baton::kernels::cpu
