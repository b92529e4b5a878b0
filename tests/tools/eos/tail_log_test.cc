#include "tools/eos/tail_log.h"

#include <cstdio>
#include <filesystem>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/eos/eos_rows.h"
#include "tests/tools/eos/log_files.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Follows a log to which each wait does the next thing of `changes`; after them, it ends.
class TailLogTest : public LogFilesTest {
 protected:
  void Tail(const TailOptions& options) {
    size_t next = 0;
    const absl::StatusOr<int64_t> no_rows = TailLog(
        options, {.write =
                      [this](std::string_view text) {
                        shown_.emplace_back(text);
                        return shown_.size() < most_lines_;
                      },
                  .note = [this](const std::string& sentence) { notes_.push_back(sentence); },
                  .wait =
                      [&] {
                        if (next == changes_.size()) return false;
                        changes_[next++]();
                        return true;
                      }});
    ASSERT_TRUE(no_rows.ok()) << no_rows.status();
  }
  // The steps of the rows that were shown, without the head.
  std::vector<int> Steps() const {
    std::vector<int> steps;
    for (size_t i = 1; i < shown_.size(); ++i) steps.push_back(std::stoi(shown_[i].substr(20, 7)));
    return steps;
  }
  std::string Rows(int first, int last) const {
    std::string rows;
    for (int step = first; step <= last; ++step) rows += EosLine({.step = step});
    return rows;
  }

  std::vector<std::function<void()>> changes_;
  std::vector<std::string> shown_, notes_;
  size_t most_lines_ = 1000;  // before the reader goes
};

TEST_F(TailLogTest, ALineSaysWhatARowIs) {
  EosLogRow row = {.request_id = "r1", .step = 5, .token = 123, .eos_prob = 0.001, .eos_rank = 3};
  EXPECT_EQ(TailLine(row),
            "r1                        5      123      0.001  ######             3\n");
  row.eos_prob = 1;
  row.is_finished = true;
  row.finish_reason = FinishReason::kStopEos;
  EXPECT_EQ(TailLine(row),
            "r1                        5      123          1  ############       3  stop_eos\n");
  row = {.request_id = "\x1b[2J", .step = 1};
  EXPECT_EQ(TailLine(row),
            "\\x1b[2J                   1        0          -"
            "                     -\n");
}

TEST_F(TailLogTest, ShowsTheLastRows) {
  Tail({.path = File("log", Rows(1, 9)), .rows = 3});
  EXPECT_THAT(shown_[0], HasSubstr("eos_prob"));
  EXPECT_THAT(Steps(), ElementsAre(7, 8, 9));
}

TEST_F(TailLogTest, SaysThatTheLastLineWasCut) {
  Tail({.path = File("log", Rows(1, 3) + "{\"request_id\""), .rows = 2});
  EXPECT_THAT(Steps(), ElementsAre(2, 3));
  EXPECT_THAT(notes_,
              ElementsAre(HasSubstr(":4: the last line has no end (13 bytes): it was cut")));
}

TEST_F(TailLogTest, ShowsOnlyTheRowsOfARequest) {
  const std::string log =
      File("log", EosLine({.id = "a"}) + EosLine({.id = "b", .step = 7}) +
                      EosLine({.id = "a", .step = 2}) + EosLine({.id = "aa", .step = 8}));
  Tail({.path = log, .request_id = "a"});
  EXPECT_THAT(Steps(), ElementsAre(1, 2));
}

TEST_F(TailLogTest, FollowsAFileThatGrowsEvenByHalfLines) {
  const std::string row = EosLine({.step = 3});
  changes_ = {[&] { Append("log", row.substr(0, 50)); }, [&] { Append("log", row.substr(50)); },
              [] {}, [&] { Append("log", Rows(4, 5)); }};
  Tail({.path = File("log", Rows(1, 2)), .rows = 1, .follow = true});
  EXPECT_THAT(Steps(), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(TailLogTest, WithoutFollowItDoesNotWait) {
  changes_ = {[&] { ADD_FAILURE() << "waited"; }};
  Tail({.path = File("log", Rows(1, 2))});
  EXPECT_THAT(Steps(), ElementsAre(1, 2));
}

TEST_F(TailLogTest, ReadsAFileThatWasReplacedFromItsBeginning) {
  changes_ = {[&] {
                Append("log", Rows(3, 3));
                std::rename(Path("log").c_str(), Path("old").c_str());
              },
              [] {},  // there is no file now
              [&] { File("log", Rows(1, 2)); }, [&] { Append("log", Rows(4, 4)); }};
  Tail({.path = File("log", Rows(1, 2)), .rows = 1, .follow = true});
  EXPECT_THAT(Steps(), ElementsAre(2, 3, 1, 2, 4));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("was replaced")));
}

// As a writer that rotates: FILE gets its number, and a new one is there.
TEST_F(TailLogTest, FollowsALogOverRotationsWithoutARowTwiceOrLost) {
  const auto turn = [&](int number) {
    std::rename(Path("log").c_str(), Path("log." + std::to_string(number)).c_str());
  };
  changes_ = {[&] {
                Append("log", Rows(3, 3));
                turn(7);
                File("log", Rows(4, 4));
              },
              [&] {  // twice between two looks, and compressed and removed meanwhile
                Append("log", Rows(5, 5));
                turn(8);
                Compress("log.8");
                File("log", Rows(6, 6));
                turn(9);
                Compress("log.9");
                std::filesystem::remove(Path("log.6"));
                File("log", Rows(7, 7));
              },
              [&] { turn(10); },  // a moment without a file
              [&] { File("log", Rows(8, 8)); }};
  File("log.6", Rows(1, 1));
  Tail({.path = File("log", Rows(2, 2)), .rows = 1, .follow = true});
  EXPECT_THAT(Steps(), ElementsAre(2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(TailLogTest, TheLastRowsMayLieInSeveralParts) {
  File("log.9", Rows(1, 3));
  Compress(File("log.10", Rows(4, 6)));
  File("log", Rows(7, 8));
  Tail({.path = Path("log"), .rows = 4});
  EXPECT_THAT(Steps(), ElementsAre(5, 6, 7, 8));
  shown_.clear();
  Tail({.path = Path("log"), .rows = 100});
  EXPECT_THAT(Steps(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST_F(TailLogTest, ARequestIsFoundInAllParts) {
  Compress(File("log.1", EosLine({.id = "a"}) + EosLine({.id = "b", .step = 9})));
  File("log.2", EosLine({.id = "a", .step = 2}));
  Tail({.path = File("log", EosLine({.id = "a", .step = 3})), .request_id = "a"});
  EXPECT_THAT(Steps(), ElementsAre(1, 2, 3));
}

TEST_F(TailLogTest, OnePartCanBeShown) {
  File("log.1", Rows(1, 2));
  Compress(File("log.2", Rows(3, 4)));
  File("log", Rows(5, 6));
  Tail({.path = Path("log.2.zst")});
  EXPECT_THAT(Steps(), ElementsAre(3, 4));
}

TEST_F(TailLogTest, ReadsAFileThatBecameShorterFromItsBeginning) {
  changes_ = {[&] { File("log", Rows(8, 8)); }, [&] { Append("log", Rows(9, 9)); }};
  Tail({.path = File("log", Rows(1, 3)), .rows = 1, .follow = true});
  EXPECT_THAT(Steps(), ElementsAre(3, 8, 9));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("became shorter")));
}

TEST_F(TailLogTest, FollowsALogWhoseWriterTakesHalfALineBack) {
  const std::string row = EosLine({.step = 3});
  const auto take_back = [&] { std::filesystem::resize_file(Path("log"), Rows(1, 2).size()); };
  changes_ = {[&] { Append("log", row.substr(0, 50)); }, take_back,
              [&] { Append("log", row.substr(0, 50)); },
              [&] {
                take_back();
                Append("log", Rows(4, 5));
              }};
  Tail({.path = File("log", Rows(1, 2)), .rows = 1, .follow = true});
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 5));
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(TailLogTest, NotesLinesThatAreNoRows) {
  Tail({.path = File("log", "x\n" + Rows(1, 1))});
  EXPECT_THAT(Steps(), ElementsAre(1));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("log:1 is no row: not JSON")));
}

TEST_F(TailLogTest, EndsWhenNobodyReads) {
  most_lines_ = 3;
  changes_ = {[&] { ADD_FAILURE() << "waited"; }};
  Tail({.path = File("log", Rows(1, 9)), .follow = true});
  EXPECT_THAT(shown_, SizeIs(3));
}

}  // namespace
}  // namespace baton
