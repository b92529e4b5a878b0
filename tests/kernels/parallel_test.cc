#include "kernels/cpu/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <vector>

#include "common/base/mutex.h"
#include "kernels/cpu/thread_team.h"

namespace baton::kernels::cpu {
namespace {

// The sizes of the teams that called, one after the other.
class TeamSizes {
 public:
  void Note() {
    base::MutexLock lock(&mutex_);
    sizes_.insert(omp_get_num_threads());
  }
  std::set<int> sizes() {
    base::MutexLock lock(&mutex_);
    return sizes_;
  }

 private:
  base::Mutex mutex_;
  std::set<int> sizes_ ABSL_GUARDED_BY(mutex_);
};

// OpenMP ends threads and starts others when a region asks for another number than the last one.
TEST(ParallelTest, EveryRegionHasTheSameTeamHoweverLittleThereIsToDo) {
  const int threads = AskForThreads(3);
  TeamSizes teams;
  for (int64_t n = 0; n < 40; ++n) {
    for (const int64_t grain : {1, 4, 10}) {
      const bool in_parts = n > grain;
      std::vector<std::atomic<int>> done(static_cast<size_t>(n));
      std::atomic<int> parts = 0;
      ParallelRanges(threads, n, grain, [&](int64_t begin, int64_t end) {
        if (in_parts && threads > 1) teams.Note();
        ++parts;
        for (int64_t i = begin; i < end; ++i) ++done[static_cast<size_t>(i)];
      });
      EXPECT_LE(parts, std::min<int64_t>(threads, (n + grain - 1) / grain));
      for (const auto& times : done) ASSERT_EQ(times, 1);
    }
    ParallelItems(threads, n, [&](int64_t, int thread) {
      EXPECT_LT(thread, threads);
      if (n > 1 && threads > 1) teams.Note();
    });
  }
  // One thread alone needs no region.
  EXPECT_EQ(teams.sizes(), threads == 1 ? std::set<int>() : std::set<int>{threads});
}

// Whoever is free takes the next share, so there are more than threads where there is enough to do.
TEST(ParallelTest, ProductsAreCutIntoAsManySharesAsTheirWorkIsWorth) {
  const int threads = AskForThreads(3);
  const auto shares = [&](int64_t n, int64_t multiply_adds) {
    std::vector<std::atomic<int>> done(static_cast<size_t>(n));
    std::atomic<int64_t> calls = 0;
    ParallelShares(threads, n, multiply_adds, [&](int64_t begin, int64_t end) {
      EXPECT_LT(begin, end);
      ++calls;
      for (int64_t i = begin; i < end; ++i) ++done[static_cast<size_t>(i)];
    });
    for (const auto& times : done) EXPECT_EQ(times, 1);
    return calls.load();
  };
  constexpr int64_t kLarge = int64_t{1} << 40;
  EXPECT_EQ(shares(0, kLarge), 0);
  EXPECT_EQ(shares(1, kLarge), 1);
  EXPECT_EQ(shares(1000, 0), threads);
  EXPECT_EQ(shares(1000, int64_t{16} << 20), std::max(8, threads));
  EXPECT_EQ(shares(1000, kLarge), 16 * threads);
  EXPECT_EQ(shares(7, kLarge), 7);
}

}  // namespace
}  // namespace baton::kernels::cpu
