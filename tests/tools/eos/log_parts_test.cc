// Logs in several parts, some of them compressed, as the commands of `baton eos` read them.
#include <algorithm>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/tools/eos/eos_rows.h"
#include "tests/tools/eos/log_files.h"
#include "tests/tools/run_tool.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class EosLogPartsTest : public LogFilesTest {
 protected:
  static std::string Row(int step, FinishReason reason = FinishReason::kNone) {
    return EosLine({.step = step, .reason = reason});
  }
};

TEST_F(EosLogPartsTest, ARequestMayLieInTwoFiles) {
  Compress(File("log.1", Row(1) + Row(2)));
  File("log.2", Row(3));
  const std::string log = File("log", Row(4, FinishReason::kStopEos));
  const ToolRun run = RunTool({"eos", "validate", log});
  EXPECT_EQ(run.exit, 0) << run.out;
  EXPECT_EQ(run.out, log + ": 4 rows of 1 request, 0 of them open: all rows are good\n");
  const ToolRun stats = RunTool({"eos", "stats", log, "--json"});
  EXPECT_EQ(stats.exit, 0) << stats.err;
  const auto json = nlohmann::json::parse(stats.out);
  EXPECT_EQ(json["requests"], 1);
  EXPECT_EQ(json["rows"], 4);
  EXPECT_EQ(json["open"], 0);
  const std::string csv = Path("log.csv");
  EXPECT_EQ(RunTool({"eos", "convert", log, "--out", csv}).exit, 0);
  const std::string lines = Content(csv);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 5);
}

TEST_F(EosLogPartsTest, NamedPartsOfOneLogAreReadInTheirOrder) {
  File("log.10", Row(2, FinishReason::kLength));
  Compress(File("log.9", Row(1)));
  const ToolRun run =
      RunTool({"eos", "validate", Path("log.10"), Path("log.9.zst"), File("other", Row(1))});
  EXPECT_EQ(run.exit, 0) << run.out;
  EXPECT_EQ(run.out, Path("log") + ": 2 rows of 1 request, 0 of them open: all rows are good\n" +
                         Path("other") +
                         ": 1 row of 1 request, 1 of them open: all rows are good\n");
}

TEST_F(EosLogPartsTest, ALogWhoseFirstPartsWereRemovedBeginsInTheMiddle) {
  File("log.5", Row(8));
  const std::string log = File("log", Row(9, FinishReason::kLength) + EosLine({.id = "b"}));
  const ToolRun run = RunTool({"eos", "validate", log});
  EXPECT_EQ(run.exit, 0) << run.out;
  EXPECT_THAT(run.out, HasSubstr("3 rows of 2 requests, 1 of them open, 1 begun in older parts: "
                                 "all rows are good"));
  // With its first part there, the same rows lack some.
  std::filesystem::rename(Path("log.5"), Path("log.1"));
  EXPECT_EQ(RunTool({"eos", "validate", log}).exit, 1);
}

TEST_F(EosLogPartsTest, AGapBetweenPartsIsAFault) {
  File("log.5", Row(8));
  const std::string log = File("log", Row(10, FinishReason::kLength));
  EXPECT_THAT(RunTool({"eos", "validate", log}).out, HasSubstr("found 10, expected 9 after 8"));
}

TEST_F(EosLogPartsTest, APartWithHalfALastLineIsABadRow) {
  File("log.1", Row(1) + Row(2).substr(0, 40));
  const std::string log = File("log", Row(2, FinishReason::kLength));
  const ToolRun run = RunTool({"eos", "validate", log});
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.out, HasSubstr("found 40 bytes without an end of line behind the last row of " +
                                 Path("log.1")));
}

TEST_F(EosLogPartsTest, ACompressedFileThatWasCutOffIsTold) {
  std::string rows;
  for (int step = 1; step <= 3000; ++step) rows += Row(step);
  Compress(File("log.1", rows));
  const std::string part = Path("log.1.zst");
  std::filesystem::resize_file(part, std::filesystem::file_size(part) / 2);
  const ToolRun run = RunTool({"eos", "validate", part});
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.out, AllOf(HasSubstr(part + ": its zstd frame has no end: the file was cut off"),
                             HasSubstr("a file is broken and the rest unread")));
  for (const ToolRun& other : {RunTool({"eos", "stats", part}), RunTool({"eos", "tail", part}),
                               RunTool({"eos", "convert", part, "--out", Path("x.csv")})}) {
    EXPECT_EQ(other.exit, 1);
    EXPECT_THAT(other.err, HasSubstr("its zstd frame has no end"));
  }
  EXPECT_FALSE(std::filesystem::exists(Path("x.csv")));
}

TEST_F(EosLogPartsTest, AFileThatIsNotThereIsAnErrorPartOrNot) {
  File("log", Row(1));
  for (const char* name : {"log.3", "log.3.zst", "absent"}) {
    const ToolRun run = RunTool({"eos", "stats", Path(name)});
    EXPECT_EQ(run.exit, 4) << run.out;
    EXPECT_THAT(run.err, HasSubstr(name));
  }
}

}  // namespace
}  // namespace baton
