#include "tools/serve/gpu_deal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::string> Visible(const std::vector<GpuShare>& shares) {
  std::vector<std::string> visible;
  for (const GpuShare& share : shares) visible.push_back(share.visible);
  return visible;
}
std::vector<int> Sharers(const std::vector<GpuShare>& shares) {
  std::vector<int> sharers;
  for (const GpuShare& share : shares) sharers.push_back(share.sharers);
  return sharers;
}

TEST(DealGpusTest, EveryWorkerGetsItsOwnWhereThereAreEnough) {
  const auto shares = DealGpus({"4", "5", "GPU-af", "7", "8"}, 2, 2);
  EXPECT_THAT(Visible(shares), ElementsAre("4,5", "GPU-af,7"));
  EXPECT_THAT(Sharers(shares), ElementsAre(1, 1));
}

TEST(DealGpusTest, TooFewAreSharedInTurn) {
  const auto shares = DealGpus({"0", "1"}, 5, 1);
  EXPECT_THAT(Visible(shares), ElementsAre("0", "1", "0", "1", "0"));
  EXPECT_THAT(Sharers(shares), ElementsAre(3, 2, 3, 2, 3));
  EXPECT_THAT(Sharers(DealGpus({"0"}, 2, 1)), ElementsAre(2, 2));
}

TEST(DealGpusTest, NothingIsDealtWhereNoWorkerCouldHaveSoMany) {
  const auto shares = DealGpus({"0", "1"}, 1, 4);
  EXPECT_THAT(Visible(shares), ElementsAre(""));
  EXPECT_THAT(Sharers(shares), ElementsAre(1));
}

// A driver may name its devices otherwise: what there is belongs to all workers then.
TEST(DealGpusTest, GpusThatAreNotKnownAreSharedByAllWorkers) {
  const auto shares = DealGpus({}, 3, 1);
  EXPECT_THAT(Visible(shares), ElementsAre("", "", ""));
  EXPECT_THAT(Sharers(shares), ElementsAre(3, 3, 3));
}

TEST(VisibleGpusTest, TheVariableDecides) {
  EXPECT_THAT(VisibleGpus("2,GPU-1b"), ElementsAre("2", "GPU-1b"));
  EXPECT_THAT(VisibleGpus(""), IsEmpty());
}

TEST(VisibleGpusTest, WithoutItTheDriversNodesAreCounted) {
  const ScratchFolder folder;
  for (const char* name : {"nvidia3", "nvidia12", "nvidiactl", "nvidia-uvm", "nvidia", "sda1"}) {
    folder.Write(name, "");
  }
  EXPECT_THAT(VisibleGpus(nullptr, folder.path()), ElementsAre("0", "1"));
  EXPECT_THAT(VisibleGpus(nullptr, folder / "none"), SizeIs(0));
}

}  // namespace
}  // namespace baton
