// Tensor-parallel groups over a library with NCCL's symbols that sums host memory.
#include "kernels/cuda/group/nccl_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "common/base/status.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/fake_nccl/fake_nccl_access.h"
#include "tests/fakes/fake_nccl/fake_stream.h"

namespace baton::kernels::cuda {
namespace {

using testing::HasSubstr;
using Group = std::vector<std::unique_ptr<Collective>>;

constexpr auto kPatience = std::chrono::seconds(20);

std::shared_ptr<const NcclLibrary> Library() {
  auto library = NcclLibrary::Load(FakeNcclPath(), "--tensor-parallel-size 1");
  EXPECT_TRUE(library.ok()) << library.status();
  return *std::move(library);
}

absl::StatusOr<Group> MakeGroup(int ranks, base::Duration patience = kPatience) {
  std::vector<int> devices;
  for (int rank = 0; rank < ranks; ++rank) devices.push_back(rank);
  return MakeNcclGroup(Library(), devices, patience);
}

// A rank with its stream and values. Outlives its group, which may still release it as it ends.
struct End {
  nccl::FakeStream stream;
  std::vector<float> values;
};

TEST(NcclGroupTest, SumsAreQueuedInOrderAndEqualOnAllRanks) {
  for (const int ranks : {1, 2, 4}) {
    const auto group = MakeGroup(ranks);
    ASSERT_TRUE(group.ok()) << group.status();
    std::vector<End> ends(static_cast<size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      Collective& collective = *(*group)[rank];
      EXPECT_EQ(collective.rank(), rank);
      EXPECT_EQ(collective.size(), ranks);
      threads.emplace_back([&collective, &end = ends[rank], rank] {
        end.values.assign(1000, static_cast<float>(rank + 1));
        // The second sum is of the first one's results.
        for (int sum = 0; sum < 2; ++sum) {
          EXPECT_TRUE(collective.AllReduceSum(end.values, &end.stream).ok());
        }
        std::vector<float> on_host = {1, 2};
        EXPECT_TRUE(collective.AllReduceSumOnHost(on_host).ok());
        EXPECT_EQ(on_host[1], static_cast<float>(2 * collective.size()));
        end.stream.Synchronize();
        EXPECT_TRUE(collective.status().ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
    const float expected = static_cast<float>(ranks * (ranks + 1) / 2 * ranks);
    for (const End& end : ends) EXPECT_EQ(end.values, std::vector<float>(1000, expected));
  }
}

TEST(NcclGroupTest, PartsAreExchangedInPlaceBehindSums) {
  constexpr int kRanks = 4;
  constexpr size_t kPart = 5;
  const auto group = MakeGroup(kRanks);
  ASSERT_TRUE(group.ok()) << group.status();
  std::vector<End> ends(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    End& end = ends[rank];
    end.values.assign(kRanks * kPart, 0);
    std::fill_n(end.values.begin() + rank * kPart, kPart, static_cast<float>(rank + 1));
    EXPECT_TRUE((*group)[rank]->AllGather(end.values, &end.stream).ok());
    EXPECT_TRUE((*group)[rank]->AllReduceSum(end.values, &end.stream).ok());
  }
  for (End& end : ends) {
    end.stream.Synchronize();
    for (size_t i = 0; i < end.values.size(); ++i) {
      EXPECT_EQ(end.values[i], static_cast<float>(kRanks * (i / kPart + 1))) << i;
    }
  }
}

TEST(NcclGroupTest, ARankThatDoesNotComeToASumOnTheHostEndsTheGroup) {
  End end{.values = std::vector<float>(10)};
  const auto group = MakeGroup(2, std::chrono::milliseconds(50));
  ASSERT_TRUE(group.ok()) << group.status();
  ASSERT_TRUE((*group)[1]->AllReduceSum(end.values, &end.stream).ok());
  std::vector<float> times(3);
  const absl::Status late = (*group)[0]->AllReduceSumOnHost(times);
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded) << late;
  end.stream.Synchronize();
  EXPECT_EQ((*group)[1]->status(), late);
}

TEST(NcclGroupTest, AnAbortReleasesADeviceThatWaits) {
  End end{.values = std::vector<float>(10)};
  const auto group = MakeGroup(3);
  ASSERT_TRUE(group.ok()) << group.status();
  ASSERT_TRUE((*group)[0]->AllReduceSum(end.values, &end.stream).ok());
  (*group)[2]->Abort(absl::InternalError("rank 2 has failed"));
  (*group)[1]->Abort(absl::InternalError("too late to count"));
  end.stream.Synchronize();
  EXPECT_EQ((*group)[0]->status().message(), "rank 2 has failed");
  EXPECT_EQ((*group)[1]->AllReduceSum(end.values, &end.stream).message(), "rank 2 has failed");
}

// A sum and an exchange that are only captured, as in a decode step.
void Capture(Collective& rank, End* end) {
  end->stream.BeginCapture();
  EXPECT_TRUE(rank.AllReduceSum(end->values, &end->stream).ok());
  EXPECT_TRUE(rank.AllGather(end->values, &end->stream).ok());
  end->stream.EndCapture();
}

TEST(NcclGroupTest, AnAbortReleasesDevicesWhileGraphsHoldSums) {
  std::vector<End> ends(3);  // outlive the group, as a process that ends in a hurry has it
  for (End& end : ends) end.values.assign(12, 1);
  auto group = MakeGroup(3);
  ASSERT_TRUE(group.ok()) << group.status();
  for (size_t rank = 0; rank < 3; ++rank) Capture(*(*group)[rank], &ends[rank]);
  for (const size_t rank : {0, 1}) {
    ASSERT_TRUE((*group)[rank]->AllReduceSum(ends[rank].values, &ends[rank].stream).ok());
  }
  (*group)[2]->Abort(absl::InternalError("rank 2 has failed"));
  for (const size_t rank : {0, 1}) {
    ends[rank].stream.Synchronize();
    EXPECT_EQ((*group)[rank]->status().message(), "rank 2 has failed");
  }
  for (End& end : ends) end.stream.DestroyGraph();
  group->clear();
}

TEST(NcclGroupTest, AGraphThatIsNeverDestroyedHoldsTheEndUpToADeadline) {
  End end{.values = {1, 2}};
  auto group = MakeGroup(2, std::chrono::milliseconds(50));
  ASSERT_TRUE(group.ok()) << group.status();
  Capture(*(*group)[0], &end);
  group->clear();
  end.stream.DestroyGraph();
}

TEST(NcclGroupTest, ADeviceTwiceIsRefusedInNcclsWords) {
  const std::vector<int> devices = {0, 0};
  const auto group = MakeNcclGroup(Library(), devices, kPatience);
  EXPECT_THAT(group.status().message(), HasSubstr("ncclCommInitAll"));
}

class NcclGroupFaultTest : public testing::Test {
 protected:
  ~NcclGroupFaultTest() override { SetFakeNcclScript(""); }
};

TEST_F(NcclGroupFaultTest, ASumThatCannotBeQueuedEndsTheGroup) {
  SetFakeNcclScript("AllReduce@2:fail");
  End end{.values = {1, 2}};
  const auto group = MakeGroup(2);
  EXPECT_TRUE((*group)[0]->AllReduceSum(end.values, &end.stream).ok());
  const absl::Status failed = (*group)[1]->AllReduceSum(end.values, &end.stream);
  EXPECT_EQ(ReasonOf(failed), Reason::kDeviceFault) << failed;
  EXPECT_THAT(failed.message(), HasSubstr("ncclAllReduce"));
  end.stream.Synchronize();
  EXPECT_EQ((*group)[0]->status(), failed);
}

TEST_F(NcclGroupFaultTest, AnExchangeThatCannotBeQueuedEndsTheGroup) {
  SetFakeNcclScript("AllGather@1:fail");
  End end{.values = std::vector<float>(10)};
  const auto group = MakeGroup(2);
  ASSERT_TRUE(group.ok()) << group.status();
  const absl::Status failed = (*group)[1]->AllGather(end.values, &end.stream);
  EXPECT_EQ(ReasonOf(failed), Reason::kDeviceFault);
  EXPECT_THAT(failed.message(), HasSubstr("ncclAllGather"));
  EXPECT_EQ((*group)[0]->status(), failed);
}

TEST_F(NcclGroupFaultTest, ASumThatFailsLaterIsSeenWhenItShouldBeOver) {
  SetFakeNcclScript("AllReduce@1:async");
  End end{.values = {1, 2}};
  const auto group = MakeGroup(2);
  EXPECT_TRUE((*group)[0]->AllReduceSum(end.values, &end.stream).ok());
  EXPECT_TRUE(Eventually([&] { return !(*group)[0]->status().ok(); }, std::chrono::seconds(20)));
  const absl::Status status = (*group)[0]->status();
  EXPECT_EQ(ReasonOf(status), Reason::kDeviceFault) << status;
  EXPECT_THAT(status.message(), HasSubstr("the script says so"));
  EXPECT_EQ((*group)[1]->status(), status);
}

TEST_F(NcclGroupFaultTest, AConnectionThatHangsEndsAtItsDeadline) {
  SetFakeNcclScript("CommInitAll:hang");
  const auto group = MakeGroup(2, std::chrono::milliseconds(50));
  EXPECT_EQ(group.status().code(), absl::StatusCode::kDeadlineExceeded) << group.status();
  EXPECT_THAT(group.status().message(), HasSubstr("did not connect 2 GPUs"));
}

}  // namespace
}  // namespace baton::kernels::cuda
