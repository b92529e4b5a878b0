#include "tools/batch/batch_journal.h"

#include <sys/stat.h>

#include "gmock/gmock.h"
#include "tests/tools/batch/batch_files.h"
#include "tools/batch/answer_line.h"

namespace baton::batch {
namespace {

using ::testing::HasSubstr;

std::string Good(int64_t number, const std::string& id) {
  return ResponseLine({.number = number, .custom_id = id}, 200, "r", "{}");
}
std::string Bad(int64_t number, const std::string& id) {
  return ErrorLine({.number = number, .custom_id = id}, "invalid_line", "no");
}

class BatchJournalTest : public BatchFiles {
 protected:
  absl::StatusOr<BatchJournal> Open(const std::string& name, bool drop_failed = false) {
    return BatchJournal::Open(Path(name), drop_failed);
  }
  // That `text` is refused with `words` and left as it is.
  void ExpectRefused(const std::string& text, const std::string& words) {
    Write("other", text);
    const auto journal = Open("other");
    EXPECT_TRUE(absl::IsInvalidArgument(journal.status())) << text;
    EXPECT_THAT(journal.status().ToString(), HasSubstr(words));
    EXPECT_EQ(Content("other"), text);
  }
};

TEST_F(BatchJournalTest, WhatWasAddedIsThereTheNextTime) {
  {
    auto journal = Open("out");
    ASSERT_TRUE(journal.ok()) << journal.status();
    EXPECT_EQ(journal->done(), 0);
    ASSERT_TRUE(journal->Add(KeyOf("a", 1), false, Good(1, "a")).ok());
    ASSERT_TRUE(journal->Add(KeyOf("", 2), true, Bad(2, "")).ok());
    EXPECT_TRUE(journal->Sync().ok());
  }
  const auto journal = Open("out");
  ASSERT_TRUE(journal.ok()) << journal.status();
  EXPECT_EQ(journal->done(), 2);
  EXPECT_EQ(journal->failed(), 1);
  EXPECT_EQ(journal->cut_bytes(), 0);
  EXPECT_TRUE(journal->Has(KeyOf("a", 7)));
  EXPECT_TRUE(journal->Has(KeyOf("", 2)));
  EXPECT_FALSE(journal->Has(KeyOf("", 1)));
}

TEST_F(BatchJournalTest, AnErrorOfTheDiskIsNotTheEndOfTheAnswers) {
  // To the system a file, of which no byte can be read: there is no memory at its beginning.
  const auto journal = BatchJournal::Open("/proc/self/mem", /*drop_failed=*/false);
  EXPECT_FALSE(absl::IsInvalidArgument(journal.status()));
  EXPECT_THAT(journal.status().ToString(), HasSubstr("cannot read /proc/self/mem"));
}

TEST_F(BatchJournalTest, ALineWithoutItsEndIsDropped) {
  const std::string whole = Good(1, "a");
  for (const size_t bytes : {size_t{1}, size_t{20}, Good(2, "b").size() - 1}) {
    Write("out", whole + Good(2, "b").substr(0, bytes));
    auto journal = Open("out");
    ASSERT_TRUE(journal.ok()) << journal.status();
    EXPECT_EQ(journal->done(), 1);
    EXPECT_EQ(journal->cut_bytes(), static_cast<int64_t>(bytes));
    EXPECT_EQ(Content("out"), whole);
    ASSERT_TRUE(journal->Add(KeyOf("b", 2), false, Good(2, "b")).ok());
    EXPECT_EQ(Content("out"), whole + Good(2, "b"));
  }
}

TEST_F(BatchJournalTest, OtherFilesAreLeftAsTheyAre) {
  ExpectRefused("my notes", "other:1 is no answer of a batch");
  ExpectRefused("my notes\n", "other:1");
  ExpectRefused(RequestLine("a"), "other:1");
  ExpectRefused(Good(1, "a") + "my notes", "other:2");
  ExpectRefused(Good(1, "a") + "my notes\n" + Good(2, "b"), "other:2");
  ExpectRefused(Good(1, "a") + Good(1, "a"), "second answer");
  std::filesystem::create_directory(Path("folder"));
  EXPECT_TRUE(absl::IsInvalidArgument(Open("folder").status()));
}

TEST_F(BatchJournalTest, WhatHasNoEndIsRefusedBeforeItIsRead) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  for (const std::string& name : {Path("pipe"), std::string("/dev/zero")}) {
    const auto journal = BatchJournal::Open(name, /*drop_failed=*/false);
    EXPECT_TRUE(absl::IsInvalidArgument(journal.status())) << name;
    EXPECT_THAT(journal.status().ToString(), HasSubstr("have to be a file"));
  }
}

TEST_F(BatchJournalTest, APathThatCannotBeOpenedIsTheUsersToMend) {
  const auto journal = Open("nowhere/out");
  EXPECT_TRUE(absl::IsInvalidArgument(journal.status())) << journal.status();
  EXPECT_THAT(journal.status().ToString(), HasSubstr("No such file or directory"));
}

TEST_F(BatchJournalTest, OneProcessWritesAtATime) {
  const auto first = Open("out");
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Open("out").status()));
}

TEST_F(BatchJournalTest, FailedAnswersAreDroppedWhereThatIsAsked) {
  Write("out", Good(1, "a") + Bad(2, "b") + ResponseLine({3, "c"}, 400, "r", "{}") + Good(4, "d") +
                   "{\"id\"");
  {
    auto journal = Open("out", /*drop_failed=*/true);
    ASSERT_TRUE(journal.ok()) << journal.status();
    EXPECT_EQ(journal->done(), 2);
    EXPECT_EQ(journal->failed(), 0);
    EXPECT_EQ(journal->dropped(), 2);
    EXPECT_EQ(journal->cut_bytes(), 5);
    EXPECT_FALSE(journal->Has(KeyOf("b", 2)));
    ASSERT_TRUE(journal->Add(KeyOf("b", 2), false, Good(2, "b")).ok());
  }
  EXPECT_EQ(Content("out"), Good(1, "a") + Good(4, "d") + Good(2, "b"));
  EXPECT_FALSE(std::filesystem::exists(Path("out.good")));
}

TEST_F(BatchJournalTest, FailedAnswersAreDroppedWhereALinkPointsTo) {
  std::filesystem::create_directory(Path("elsewhere"));
  Write("elsewhere/answers", Good(1, "a") + Bad(2, "b"));
  std::filesystem::create_symlink("elsewhere/answers", Path("out"));
  {
    auto journal = Open("out", /*drop_failed=*/true);
    ASSERT_TRUE(journal.ok()) << journal.status();
    ASSERT_TRUE(journal->Add(KeyOf("b", 2), false, Good(2, "b")).ok());
  }
  EXPECT_TRUE(std::filesystem::is_symlink(Path("out")));
  EXPECT_EQ(Content("elsewhere/answers"), Good(1, "a") + Good(2, "b"));
}

}  // namespace
}  // namespace baton::batch
