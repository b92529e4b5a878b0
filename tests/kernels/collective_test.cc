#include "kernels/collective.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <latch>
#include <random>
#include <thread>
#include <vector>

#include "common/base/status.h"
#include "kernels/backend_factory.h"
#include "kernels/column_share.h"

namespace baton::kernels {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);
using Group = std::vector<std::unique_ptr<Collective>>;

// f(rank) on a thread per rank.
template <typename F>
void OnRanks(const Group& group, F f) {
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < group.size(); ++rank) threads.emplace_back([&f, rank] { f(rank); });
  for (std::thread& thread : threads) thread.join();
}

std::vector<std::vector<float>> RandomValues(size_t ranks, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 100);
  std::vector<std::vector<float>> values(ranks, std::vector<float>(count));
  for (auto& of_rank : values) {
    for (float& value : of_rank) value = normal(random);
  }
  return values;
}

TEST(CollectiveTest, KnowsItsPlace) {
  const Group group = MakeHostGroup(3, kPatience);
  ASSERT_EQ(group.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(group[rank]->rank(), rank);
    EXPECT_EQ(group[rank]->size(), 3);
  }
}

TEST(CollectiveTest, EveryRankGetsTheSumInTheOrderOfTheRanks) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    const Group group = MakeHostGroup(ranks, kPatience);
    // Below, at and above what is added at once, and fewer values than ranks.
    for (const size_t count : {0, 1, 7, 1024, 1025, 10'000}) {
      auto values = RandomValues(ranks, count, static_cast<uint32_t>(ranks + 31 * count));
      std::vector<float> expected = values[0];
      for (int rank = 1; rank < ranks; ++rank) {
        for (size_t i = 0; i < count; ++i) expected[i] += values[rank][i];
      }
      OnRanks(group,
              [&](size_t rank) { EXPECT_TRUE(group[rank]->AllReduceSum(values[rank]).ok()); });
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(values[rank], expected) << "rank " << rank << " of " << ranks << ", " << count;
      }
    }
  }
}

TEST(CollectiveTest, ManySumsFollowEachOther) {
  const Group group = MakeHostGroup(4, kPatience);
  std::vector<std::vector<float>> values(4, std::vector<float>(100, 1));
  OnRanks(group, [&](size_t rank) {
    for (int round = 0; round < 500; ++round) {
      ASSERT_TRUE(group[rank]->AllReduceSum(values[rank]).ok());
      for (float& value : values[rank]) {
        ASSERT_EQ(value, 4);
        value = 1;
      }
    }
  });
}

TEST(CollectiveTest, EveryRankGetsThePartsOfAll) {
  for (const int ranks : {1, 2, 3, 8}) {
    const Group group = MakeHostGroup(ranks, kPatience);
    for (const size_t part : {0, 1, 7, 1000}) {
      auto values = RandomValues(ranks, part * static_cast<size_t>(ranks), 7);
      std::vector<float> expected;
      for (size_t rank = 0; rank < values.size(); ++rank) {
        const auto own = values[rank].begin() + static_cast<ptrdiff_t>(rank * part);
        expected.insert(expected.end(), own, own + static_cast<ptrdiff_t>(part));
      }
      OnRanks(group, [&](size_t rank) { EXPECT_TRUE(group[rank]->AllGather(values[rank]).ok()); });
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(values[rank], expected) << "rank " << rank << " of " << ranks << ", " << part;
      }
    }
  }
}

TEST(ColumnShareTest, SharesCoverAllColumnsInOrder) {
  for (const int ranks : {1, 2, 3, 8}) {
    for (const int64_t cols : {129, 1000, 1024, 32'003, 151'936}) {
      ASSERT_TRUE(CanShareColumns(cols, ranks));
      int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const ColumnShare share = ShareOfColumns(cols, rank, ranks);
        EXPECT_EQ(share.begin, next);
        EXPECT_EQ(share.begin % kShareStep, 0);
        EXPECT_GT(share.size(), 0);
        EXPECT_LE(share.size(), WidestShare(cols, ranks));
        EXPECT_GT(share.size(), WidestShare(cols, ranks) - 2 * kShareStep);
        next = share.end;
      }
      EXPECT_EQ(next, cols);
    }
  }
  EXPECT_FALSE(CanShareColumns(112, 8));
  EXPECT_TRUE(CanShareColumns(113, 8));
}

TEST(CollectiveTest, AnAbortReleasesWhoWaitsAndWhoComes) {
  const Group group = MakeHostGroup(3, std::chrono::hours(1));
  std::vector<float> values(10);
  std::latch begun(1);
  std::thread waiting([&] {
    begun.count_down();
    EXPECT_EQ(group[0]->AllReduceSum(values).message(), "rank 2 has failed");
  });
  begun.wait();
  group[2]->Abort(absl::InternalError("rank 2 has failed"));
  group[1]->Abort(absl::InternalError("too late to count"));
  waiting.join();
  EXPECT_EQ(group[1]->AllReduceSum(values).message(), "rank 2 has failed");
  EXPECT_EQ(group[0]->AllGather({values.data(), 9}).message(), "rank 2 has failed");
}

TEST(CollectiveTest, ARankThatDoesNotComeEndsTheGroup) {
  const Group group = MakeHostGroup(3, std::chrono::milliseconds(30));
  std::vector<float> values(10);
  const absl::Status status = group[1]->AllReduceSum(values);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("rank 1 waited"), std::string::npos) << status;
  EXPECT_NE(status.message().find("2 of 3"), std::string::npos) << status;
  EXPECT_EQ(group[0]->AllReduceSum(values), status);
}

// A host backend with and without a group.
class AllReduceTest : public testing::TestWithParam<Device> {};

TEST_P(AllReduceTest, SumsMatricesAndNamesItsGroup) {
  const Group group = MakeHostGroup(2, kPatience);
  std::vector<std::vector<float>> values = {{1, 2, 3, 4, 5, 6}, {10, 20, 30, 40, 50, 60}};
  OnRanks(group, [&](size_t rank) {
    auto backend =
        MakeBackend({.device = GetParam(), .threads = 3, .collective = group[rank].get()});
    ASSERT_TRUE(backend.ok()) << backend.status();
    EXPECT_EQ((*backend)->info().ranks, 2);
    EXPECT_TRUE((*backend)->info().numerics().ends_with("/tp2"));
    if (GetParam() == Device::kCpu) {
      EXPECT_LE((*backend)->info().threads, rank == 0 ? 2 : 1);
    }
    (*backend)->AllReduce(Matrix::Dense(values[rank].data(), DType::kF32, 2, 3));
    EXPECT_TRUE((*backend)->EndStep().ok());
  });
  EXPECT_EQ(values[0], (std::vector<float>{11, 22, 33, 44, 55, 66}));
  EXPECT_EQ(values[1], values[0]);
}

TEST_P(AllReduceTest, JoinsTheColumnsOfAllRanks) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kCols = 75;  // in shares of 32, 32 and 11
  constexpr int kRanks = 3;
  const Group group = MakeHostGroup(kRanks, kPatience);
  const int64_t part = kRows * WidestShare(kCols, kRanks);
  std::vector<std::vector<float>> joined(kRanks, std::vector<float>(kRows * kCols));
  OnRanks(group, [&](size_t index) {
    const int rank = static_cast<int>(index);
    auto backend =
        MakeBackend({.device = GetParam(), .threads = 1, .collective = group[rank].get()});
    ASSERT_TRUE(backend.ok()) << backend.status();
    std::vector<float> parts(static_cast<size_t>(kRanks * part), -1);
    const ColumnShare share = ShareOfColumns(kCols, rank, kRanks);
    float* own = parts.data() + rank * part;
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t col = share.begin; col < share.end; ++col) {
        *own++ = static_cast<float>(row * kCols + col);
      }
    }
    (*backend)->GatherColumns(Matrix::Dense(parts.data(), DType::kF32, kRanks, part),
                              Matrix::Dense(joined[index].data(), DType::kF32, kRows, kCols));
    EXPECT_TRUE((*backend)->EndStep().ok());
  });
  for (const std::vector<float>& values : joined) {
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<float>(i));
  }
}

TEST_P(AllReduceTest, AloneIsNothing) {
  auto backend = MakeBackend({.device = GetParam(), .threads = 1});
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->info().numerics().find("tp"), std::string::npos);
  std::vector<float> values = {1, 2, 3};
  (*backend)->AllReduce(Matrix::Dense(values.data(), DType::kF32, 1, 3));
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3}));
}

TEST_P(AllReduceTest, AMissingRankIsAFaultOfTheStep) {
  const Group group = MakeHostGroup(2, kPatience);
  auto backend = MakeBackend({.device = GetParam(), .threads = 1, .collective = group[0].get()});
  ASSERT_TRUE(backend.ok()) << backend.status();
  group[1]->Abort(absl::InternalError("rank 1 has failed"));
  std::vector<float> values = {1, 2, 3};
  for (int op = 0; op < 2; ++op) {
    (*backend)->AllReduce(Matrix::Dense(values.data(), DType::kF32, 1, 3));
  }
  const absl::Status status = (*backend)->EndStep();
  EXPECT_EQ(ReasonOf(status), Reason::kDeviceFault);
  EXPECT_EQ(status.message(), "rank 1 has failed");
}

INSTANTIATE_TEST_SUITE_P(Devices, AllReduceTest, testing::Values(Device::kCpu, Device::kReference),
                         [](const auto& test) { return std::string(Name(test.param)); });

// As the environment of a process is when it starts, and afterwards.
TEST(ConnectGroupsTest, NcclConnectsAtOnceUnlessTheUserSaysOtherwise) {
  constexpr char kName[] = "NCCL_RUNTIME_CONNECT";
  unsetenv(kName);
  ConnectGroupsWhenMade();
  EXPECT_STREQ(getenv(kName), "0");
  setenv(kName, "1", 1);
  ConnectGroupsWhenMade();
  EXPECT_STREQ(getenv(kName), "1");
  unsetenv(kName);
}

}  // namespace
}  // namespace baton::kernels
