// How many threads a process computes with, by trees of files as the kernel shows them.
#include "common/base/cores.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/fakes/scratch_folder.h"

namespace baton::base {
namespace {

class CoresTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((dir_ / path).parent_path());
    std::ofstream(dir_ / path) << text << "\n";
  }
  void WriteSiblings(int cpu, const std::string& list, const char* file = "core_cpus_list") {
    Write("cpu" + std::to_string(cpu) + "/topology/" + file, list);
  }

  const ScratchFolder folder_;
  const std::filesystem::path dir_ = folder_.path();
};

TEST_F(CoresTest, HyperthreadsOfACoreCountOnce) {
  for (int core = 0; core < 4; ++core) {
    const std::string list = std::to_string(core) + "," + std::to_string(core + 4);
    WriteSiblings(core, list);
    WriteSiblings(core + 4, list);
  }
  EXPECT_EQ(PhysicalCores(dir_, std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}), 4);
  EXPECT_EQ(PhysicalCores(dir_, std::vector<int>{0, 4}), 1);
  EXPECT_EQ(PhysicalCores(dir_, std::vector<int>{0, 5, 6}), 3);  // of an affinity
  EXPECT_EQ(PhysicalCores(dir_, std::vector<int>{}), 0);
}

TEST_F(CoresTest, OlderKernelsAndUnknownSiblingsAreUnderstood) {
  WriteSiblings(0, "0-1", "thread_siblings_list");
  WriteSiblings(1, "0-1", "thread_siblings_list");
  EXPECT_EQ(PhysicalCores(dir_, std::vector<int>{0, 1}), 1);
  EXPECT_EQ(PhysicalCores(dir_, std::vector<int>{0, 1, 2, 3}), 3);  // nothing of 2 and 3
}

TEST_F(CoresTest, AQuotaGrantsWholeCoresAndAtLeastOne) {
  EXPECT_EQ(CoresOfQuota("200000 100000"), 2);
  EXPECT_EQ(CoresOfQuota("150000 100000"), 1);
  EXPECT_EQ(CoresOfQuota("50000 100000"), 1);
  EXPECT_EQ(CoresOfQuota("max 100000"), 0);
  EXPECT_EQ(CoresOfQuota(""), 0);
  EXPECT_EQ(CoresOfQuota("100000"), 0);
  EXPECT_EQ(CoresOfQuota("100000 0"), 0);
}

TEST_F(CoresTest, TheLeastQuotaOfAGroupAndThoseAboveCounts) {
  Write("system.slice/cpu.max", "800000 100000");
  Write("system.slice/baton.service/cpu.max", "max 100000");
  EXPECT_EQ(CoresOfGroup(dir_, "0::/system.slice/baton.service\n"), 8);
  Write("system.slice/baton.service/cpu.max", "300000 100000");
  EXPECT_EQ(CoresOfGroup(dir_, "0::/system.slice/baton.service\n"), 3);
  EXPECT_EQ(CoresOfGroup(dir_, "0::/system.slice\n"), 8);
  EXPECT_EQ(CoresOfGroup(dir_, "0::/user.slice\n"), 0);
}

TEST_F(CoresTest, AContainerSeesItsOwnGroupAsTheRoot) {
  Write("cpu.max", "200000 100000");
  EXPECT_EQ(CoresOfGroup(dir_, "0::/\n"), 2);
  EXPECT_EQ(CoresOfGroup(dir_, "0::/../other\n"), 2);
  EXPECT_EQ(CoresOfGroup(dir_, ""), 2);
}

TEST_F(CoresTest, ThisThreadHasAtLeastOneAndNoMoreThanItsCpus) {
  const std::vector<int> cpus = CpusOfThisThread();
  ASSERT_FALSE(cpus.empty());
  EXPECT_GE(UsableCores(cpus), 1);
  EXPECT_LE(UsableCores(cpus), static_cast<int>(cpus.size()));
  EXPECT_EQ(UsableCores({}), 1);
}

}  // namespace
}  // namespace baton::base
