#include "common/model/packed/numa_node.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class NumaNodeTest : public testing::Test {
 protected:
  void Node(int node, const std::string& cpus) {
    const std::string name = "node" + std::to_string(node);
    std::filesystem::create_directory(dir_ / name);
    dir_.Write(name + "/cpulist", cpus + "\n");
  }
  std::optional<int> Of(const std::vector<int>& cpus) { return NumaNodeOf(cpus, dir_.path()); }

  const ScratchFolder dir_;
};

TEST_F(NumaNodeTest, IsTheOneThatHoldsAllCpus) {
  Node(0, "0-3,8-11");
  Node(1, "4-7,12-15");
  dir_.Write("online", "0-1\n");
  EXPECT_EQ(Of({0, 9}), 0);
  EXPECT_EQ(Of({4, 5, 15}), 1);
  EXPECT_EQ(Of({3, 4}), std::nullopt);
  EXPECT_EQ(Of({16}), std::nullopt);
  EXPECT_EQ(Of({}), std::nullopt);
}

TEST_F(NumaNodeTest, IsNoneOnAMachineWithOne) {
  Node(0, "0-3");
  EXPECT_EQ(Of({0, 1}), std::nullopt);
  Node(1, "");  // memory alone
  EXPECT_EQ(Of({0, 1}), std::nullopt);
  EXPECT_EQ(NumaNodeOf(std::vector<int>{0}, dir_ / "nowhere"), std::nullopt);
}

TEST_F(NumaNodeTest, ListsAreTheKernels) {
  EXPECT_THAT(ParseCpuList("0-2,5,7-8"), ElementsAre(0, 1, 2, 5, 7, 8));
  EXPECT_THAT(ParseCpuList("3"), ElementsAre(3));
  for (const char* list : {"", "a", "0-", "-3", "1-2-3", "0-99999999", "99999999999999"}) {
    EXPECT_THAT(ParseCpuList(list), IsEmpty()) << list;
  }
}

}  // namespace
}  // namespace baton
