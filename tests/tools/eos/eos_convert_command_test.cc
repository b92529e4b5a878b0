#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/scratch_folder.h"
#include "tests/tools/eos/eos_rows.h"
#include "tests/tools/eos/log_files.h"
#include "tests/tools/run_tool.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kHeader[] =
    "request_id,timestamp,step,current_token_id,eos_token_id,eos_logprob,eos_prob,is_finished,"
    "finish_reason,prompt_length,output_length,total_length,eos_prob_sampling,eos_rank,entropy,"
    "top1_prob,eos_policy,natural_end_step,attempt,index\n";

class EosConvertTest : public LogFilesTest {
 protected:
  ToolRun Convert(const std::string& text) const {
    return RunTool({"eos", "convert", File("log", text), "--out", Path("x.csv")});
  }
};

TEST_F(EosConvertTest, HasAllColumnsAndNullIsEmpty) {
  const ToolRun run = Convert(EosLine({.step = 1, .eos_prob = 1}) +
                              EosLine({.step = 2, .reason = FinishReason::kLength, .eos_prob = 1}));
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_EQ(run.out, Path("x.csv") + ": 2 rows\n");
  EXPECT_EQ(Content(Path("x.csv")),
            std::string(kHeader) +
                "r1,1001.000000,1,101,2,0,1,false,,20,1,21,0.25,3,1.5,0.75,honor,,1,0\n"
                "r1,1002.000000,2,102,2,0,1,true,length,20,2,22,0.25,3,1.5,0.75,honor,,1,0\n");
}

TEST_F(EosConvertTest, TextIsQuotedWhereItMustBe) {
  const std::string log =
      EosLine({.id = "a,b"}) + EosLine({.id = "say \"x\"\n"}) + EosLine({.id = ""});
  ASSERT_EQ(Convert(log).exit, 0);
  EXPECT_THAT(Content(Path("x.csv")),
              AllOf(HasSubstr("\n\"a,b\",1001"), HasSubstr("\n\"say \"\"x\"\"\n\",1001"),
                    HasSubstr("\n\"\",1001")));
}

TEST_F(EosConvertTest, NoTextBecomesAFormulaOfASpreadsheet) {
  const std::string log = EosLine({.id = "=1+1"}) + EosLine({.id = "@a"}) + EosLine({.id = "-b"}) +
                          EosLine({.id = "+c\""}) + EosLine({.id = "\tx"}) + EosLine({.id = "d=1"});
  ASSERT_EQ(Convert(log).exit, 0);
  EXPECT_THAT(Content(Path("x.csv")),
              AllOf(HasSubstr("\n\"'=1+1\",1001"), HasSubstr("\n\"'@a\",1001"),
                    HasSubstr("\n\"'-b\",1001"), HasSubstr("\n\"'+c\"\"\",1001"),
                    HasSubstr("\n\"'\tx\",1001"), HasSubstr("\nd=1,1001")));
}

TEST_F(EosConvertTest, AnEmptyLogIsAHeader) {
  ASSERT_EQ(Convert("").exit, 0);
  EXPECT_EQ(Content(Path("x.csv")), kHeader);
}

TEST_F(EosConvertTest, AFileThatIsThereIsReplaced) {
  File("x.csv", std::string(5000, 'x'));
  ASSERT_EQ(Convert(EosLine({})).exit, 0);
  EXPECT_EQ(Content(Path("x.csv")).find("xx"), std::string::npos);
}

TEST_F(EosConvertTest, TheLogItselfIsNotReplaced) {
  const std::string log = File("log", EosLine({}));
  std::filesystem::create_symlink(log, Path("link"));
  for (const std::string& out : {log, Path("link")}) {
    const ToolRun run = RunTool({"eos", "convert", log, "--out", out});
    EXPECT_NE(run.exit, 0);
    EXPECT_THAT(run.err, HasSubstr("is the log itself"));
  }
  EXPECT_EQ(Content(log), EosLine({}));
}

// Whichever file of a log is read, and whether or not the one that is written is there.
TEST_F(EosConvertTest, NoOtherFileOfTheLogIsReplaced) {
  const std::string log = File("log", EosLine({.step = 2}));
  const std::string part = File("log.1", EosLine({}));
  File("log.2", EosLine({}));
  Compress("log.2");
  std::filesystem::create_symlink(part, Path("link"));
  std::filesystem::create_symlink("log.9", Path("ahead"));  // is not there yet
  const std::string here = std::filesystem::path(folder_.path()).filename();
  for (const std::string& read : {log, part, Path("log.2.zst")}) {
    for (const char* name :
         {"log", "log.1", "log.1.zst", "log.2.zst", "log.3", "log.requests.jsonl", "log.meta.json",
          "log.1.requests.jsonl", "log.2.requests.jsonl.zst", "log.1.meta.json", "link", "ahead",
          "./log.1"}) {
      const ToolRun run = RunTool({"eos", "convert", read, "--out", Path(name)});
      EXPECT_EQ(run.exit, 1) << read << " to " << name;
      EXPECT_THAT(run.err, HasSubstr(std::string("is the log itself or a file of it")))
          << read << " to " << name;
    }
    const ToolRun around =
        RunTool({"eos", "convert", read, "--out", folder_ / ("../" + here + "/log.1")});
    EXPECT_EQ(around.exit, 1);
  }
  EXPECT_EQ(Content(log), EosLine({.step = 2}));
  EXPECT_EQ(Content(part), EosLine({}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 5);
  for (const char* name : {"log.csv", "log.1.csv", "log.01", "other.1"}) {
    EXPECT_EQ(RunTool({"eos", "convert", part, "--out", Path(name)}).exit, 0) << name;
  }
}

TEST_F(EosConvertTest, ADeviceIsWrittenAndStaysOne) {
  std::filesystem::create_symlink("/dev/null", Path("x.csv"));
  const ToolRun run = Convert(EosLine({}));
  EXPECT_EQ(run.exit, 0);
  EXPECT_EQ(run.out, "") << "which may be the device";
  EXPECT_THAT(run.err, HasSubstr(": 1 rows"));
  EXPECT_TRUE(std::filesystem::is_symlink(Path("x.csv")));
  EXPECT_TRUE(std::filesystem::is_character_file(Path("x.csv")));
}

TEST_F(EosConvertTest, ALinkStaysAndWhatItLeadsToIsReplaced) {
  const std::string target = File("target.csv", "old");
  std::filesystem::create_symlink(target, Path("x.csv"));
  EXPECT_EQ(Convert(EosLine({})).exit, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(Path("x.csv")));
  EXPECT_THAT(Content(target), StartsWith(kHeader));
}

TEST_F(EosConvertTest, ALineThatIsNoRowLeavesNothingBehind) {
  const ToolRun run = Convert(EosLine({}) + "no row\n");
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("log:2 is no row"), HasSubstr("Try: baton eos validate")));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(EosConvertTest, AnUnfinishedLastLineIsLeftOut) {
  const ToolRun run = Convert(EosLine({}) + "{\"requ");
  EXPECT_EQ(run.exit, 0);
  EXPECT_THAT(run.out, HasSubstr(": 1 rows"));
  EXPECT_THAT(run.err, HasSubstr("left out " + Path("log") + ":2: the last line has no end"));
}

TEST_F(EosConvertTest, AFolderThatIsMissingIsNamed) {
  const ToolRun run =
      RunTool({"eos", "convert", File("log", EosLine({})), "--out", Path("missing") + "/x.csv"});
  EXPECT_EQ(run.exit, 4);
  EXPECT_THAT(run.err, HasSubstr("cannot write " + Path("missing") + "/x.csv"));
  EXPECT_EQ(RunTool({"eos", "convert", Path("log")}).exit, 2);
}

}  // namespace
}  // namespace baton
