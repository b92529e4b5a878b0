#include "common/eos/log_parts.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LogPartsTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / name; }
  void Make(const std::string& name) const { folder_.Write(name, "x\n"); }
  // The names of parts of the log "log".
  std::vector<std::string> Parts(const std::string& suffix = "") const {
    std::vector<std::string> names;
    for (const LogPart& part : PartsOf(Path("log"), suffix)) {
      names.push_back(std::to_string(part.number) + " " +
                      std::filesystem::path(part.path).filename().string());
    }
    return names;
  }

  const ScratchFolder folder_;
};

TEST_F(LogPartsTest, PartsStandInTheOrderOfTheirNumbers) {
  for (const char* name : {"log.10", "log.9.zst", "log.8", "log.8.zst", "log.10.requests.jsonl",
                           "log.9.requests.jsonl.zst", "log.11.meta.json"}) {
    Make(name);
  }
  EXPECT_THAT(Parts(), ElementsAre("8 log.8", "9 log.9.zst", "10 log.10"));
  EXPECT_THAT(Parts(".requests.jsonl"),
              ElementsAre("9 log.9.requests.jsonl.zst", "10 log.10.requests.jsonl"));
  EXPECT_EQ(LastPartNumber(Path("log")), 11);
}

TEST_F(LogPartsTest, OtherFilesAreNoParts) {
  for (const char* name :
       {"log", "log.meta.json", "log.requests.jsonl", "log.0", "log.01", "log.-1", "log.1a",
        "log.1.tmp", "log.1.zst.tmp", "log.2.gz", "xlog.3", "log2.4", "log.9999999999999999999"}) {
    Make(name);
  }
  EXPECT_THAT(Parts(), IsEmpty());
  EXPECT_EQ(LastPartNumber(Path("log")), 2);  // log.2.gz: the number is somebody's
  EXPECT_THAT(PartsOf(Path("no/such/folder/log")), IsEmpty());
}

TEST_F(LogPartsTest, ALogIsNamedByItsFileOrByParts) {
  const auto logs = LogsNamed({"a.jsonl.10", "b", "a.jsonl.9.zst", "c.3", "./d/.5", "b"});
  ASSERT_EQ(logs.size(), 4u);
  EXPECT_EQ(logs[0].name, "a.jsonl");
  EXPECT_FALSE(logs[0].live);
  EXPECT_THAT(logs[0].parts, ElementsAre("a.jsonl.9.zst", "a.jsonl.10"));
  EXPECT_EQ(logs[0].first_part, 9);
  EXPECT_EQ(logs[1].name, "b");
  EXPECT_TRUE(logs[1].live);
  EXPECT_EQ(logs[2].name, "c.3");
  EXPECT_THAT(logs[2].parts, ElementsAre("c.3"));
  EXPECT_EQ(logs[3].name, "./d/.5");
  EXPECT_TRUE(logs[3].live);
}

TEST_F(LogPartsTest, PartsBesideTheirFileAddNothingToIt) {
  const auto logs = LogsNamed({"a.1", "a"});
  ASSERT_EQ(logs.size(), 1u);
  EXPECT_TRUE(logs[0].live);
  EXPECT_THAT(logs[0].parts, IsEmpty());
}

TEST_F(LogPartsTest, AnOpenedLogKnowsItsNextNumber) {
  EXPECT_TRUE(absl::IsNotFound(OpenLog(Path("log")).status()));
  Make("log");
  EXPECT_EQ(OpenLog(Path("log"))->number, 1);
  Make("log.7.zst");
  const auto opened = OpenLog(Path("log"));
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->number, 8);
  EXPECT_EQ(opened->parts.size(), 1u);
  std::filesystem::remove(Path("log"));
  EXPECT_TRUE(absl::IsNotFound(OpenLog(Path("log")).status()));
}

TEST_F(LogPartsTest, ALinkStandsForItsFile) {
  Make("log");
  std::filesystem::create_symlink(Path("log"), Path("link"));
  EXPECT_EQ(LogNamed(Path("link")).name, std::filesystem::canonical(Path("log")).string());
  std::filesystem::create_symlink("/dev/null", Path("nothing"));
  EXPECT_EQ(LogNamed(Path("nothing")).name, Path("nothing"));
}

}  // namespace
}  // namespace baton
