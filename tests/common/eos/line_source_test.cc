#include "common/eos/line_source.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

#include "common/eos/line_file.h"
#include "gtest/gtest.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using Got = LineSource::Got;
using Change = LineSource::Change;

class LineSourceTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  void Append(const std::string& text) {
    std::ofstream(path_, std::ios::binary | std::ios::app) << text;
  }
  // As a writer that drops the line it could not complete.
  void TakeBackTo(const std::string& lines) { std::filesystem::resize_file(path_, lines.size()); }
  LineSource Opened() const {
    auto source = LineSource::Open(path_);
    EXPECT_TRUE(source.ok()) << source.status();
    return std::move(*source);
  }
  // The whole lines that there are now.
  static std::vector<std::string> LinesNow(LineSource* source) {
    std::vector<std::string> lines;
    std::string_view line;
    while (true) {
      const auto got = source->Next(&line);
      EXPECT_TRUE(got.ok()) << got.status();
      if (!got.ok() || *got == Got::kEnd) return lines;
      lines.push_back((*got == Got::kTooLong ? "too long: " : "") + std::string(line));
    }
  }

  const ScratchFolder folder_;
  const std::string path_ = folder_ / "log";
};

TEST_F(LineSourceTest, GivesWholeLinesAndWhatIsLeft) {
  Write("one\n\nthree\nfo");
  LineSource source = Opened();
  EXPECT_EQ(LinesNow(&source), (std::vector<std::string>{"one", "", "three"}));
  EXPECT_EQ(source.line_number(), 3);
  EXPECT_EQ(source.rest(), "fo");
}

TEST_F(LineSourceTest, ReadsOnWhereTheFileGrew) {
  Write("one\ntw");
  LineSource source = Opened();
  EXPECT_EQ(LinesNow(&source), std::vector<std::string>{"one"});
  Append("o\nthree\n");
  EXPECT_EQ(LinesNow(&source), (std::vector<std::string>{"two", "three"}));
  EXPECT_EQ(source.rest(), "");
  EXPECT_EQ(source.line_number(), 3);
}

TEST_F(LineSourceTest, FilesMayBeLargerThanItsMemory) {
  std::string text;
  std::vector<std::string> lines;
  for (int i = 0; i < 60000; ++i) {
    lines.push_back(std::to_string(i) + std::string(static_cast<size_t>(i % 91), 'x'));
    text += lines.back() + "\n";
  }
  ASSERT_GT(text.size(), size_t{2} << 20);
  Write(text);
  LineSource source = Opened();
  EXPECT_EQ(LinesNow(&source), lines);
}

TEST_F(LineSourceTest, ALineThatIsTooLongIsCutAndCounted) {
  const std::string most(LineSource::kMaxLineBytes, 'a');
  Write(most + "\n" + most + "b\n" + std::string(5 << 20, 'c') + "\nend\n");
  LineSource source = Opened();
  EXPECT_EQ(LinesNow(&source),
            (std::vector<std::string>{most, "too long: " + most,
                                      "too long: " + std::string(LineSource::kMaxLineBytes, 'c'),
                                      "end"}));
  EXPECT_EQ(source.line_number(), 4);
}

TEST_F(LineSourceTest, SeesWhetherAWriterIsThere) {
  auto writer = std::make_unique<absl::StatusOr<LineFile>>(LineFile::Open(path_));
  ASSERT_TRUE(writer->ok());
  const LineSource source = Opened();
  EXPECT_TRUE(source.HasWriter());
  writer.reset();
  EXPECT_FALSE(source.HasWriter());
  // It keeps no lock of its own.
  EXPECT_TRUE(LineFile::Open(path_).ok());
}

TEST_F(LineSourceTest, AWriterOutlastsAReaderThatAsksForOne) {
  Write("one\n");
  const int reader = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  ASSERT_EQ(flock(reader, LOCK_SH | LOCK_NB), 0);
  int waits = 0;
  const auto writer = LineFile::Open(path_, [&] {
    if (++waits == 3) flock(reader, LOCK_UN);
  });
  EXPECT_TRUE(writer.ok()) << writer.status();
  EXPECT_EQ(waits, 3);
  close(reader);
}

TEST_F(LineSourceTest, AWriterGivesWayToAnotherWriter) {
  const auto first = LineFile::Open(path_);
  ASSERT_TRUE(first.ok());
  int waits = 0;
  const auto second = LineFile::Open(path_, [&] { ++waits; });
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_LT(waits, 100);
}

TEST_F(LineSourceTest, SeesAFileThatWasReplacedOrBecameShorter) {
  Write("one\n");
  LineSource source = Opened();
  LinesNow(&source);
  EXPECT_EQ(source.Look(), Change::kNone);
  Write("1\n");
  EXPECT_EQ(source.Look(), Change::kTruncated);
}

TEST_F(LineSourceTest, AFileThatWasMovedAwayIsReplacedOnceThereIsAnother) {
  Write("one\n");
  const LineSource source = Opened();
  const std::string old = path_ + ".old";
  ASSERT_EQ(std::rename(path_.c_str(), old.c_str()), 0);
  EXPECT_EQ(source.Look(), Change::kNone);
  Write("one\n");
  EXPECT_EQ(source.Look(), Change::kReplaced);
}

TEST_F(LineSourceTest, ForgetsTheBeginningOfALineThatIsTakenBack) {
  Write("one\nhalf");
  LineSource source = Opened();
  EXPECT_EQ(LinesNow(&source), std::vector<std::string>{"one"});
  TakeBackTo("one\n");
  EXPECT_EQ(source.Look(), Change::kNone);
  EXPECT_EQ(LinesNow(&source), std::vector<std::string>{});
  EXPECT_EQ(source.rest(), "");
  Append("two\n");
  EXPECT_EQ(LinesNow(&source), std::vector<std::string>{"two"});
  EXPECT_EQ(source.line_number(), 2);
  TakeBackTo("one\n");
  EXPECT_EQ(source.Look(), Change::kTruncated);
}

TEST_F(LineSourceTest, ReadsWhatIsWrittenInPlaceOfALineThatWasTakenBack) {
  // Shorter than the beginning that was read, as long, and longer, with more lines behind.
  for (const std::string next : {"2\n", "two\n", "2\n\n3\n", "two and a half\nthree\n"}) {
    SCOPED_TRACE(next);
    Write("one\nhalf");
    LineSource source = Opened();
    EXPECT_EQ(LinesNow(&source), std::vector<std::string>{"one"});
    TakeBackTo("one\n");
    Append(next);
    EXPECT_EQ(source.Look(), Change::kNone);
    std::string lines;
    for (const std::string& line : LinesNow(&source)) lines += line + "\n";
    EXPECT_EQ(lines, next);
    EXPECT_EQ(source.rest(), "");
  }
}

TEST_F(LineSourceTest, ReadsAnotherBeginningInPlaceOfTheOneThatWasTakenBack) {
  for (const std::string next : {"t", "twos", "two and a"}) {
    SCOPED_TRACE(next);
    Write("one\nhalf");
    LineSource source = Opened();
    EXPECT_EQ(LinesNow(&source), std::vector<std::string>{"one"});
    TakeBackTo("one\n");
    Append(next);
    EXPECT_EQ(LinesNow(&source), std::vector<std::string>{});
    EXPECT_EQ(source.rest(), next);
    Append("\n");
    EXPECT_EQ(LinesNow(&source), std::vector<std::string>{next});
  }
}

TEST_F(LineSourceTest, ForgetsALineThatIsTooLongWhenItIsTakenBack) {
  Write("one\n" + std::string(3 << 20, 'x'));
  LineSource source = Opened();
  EXPECT_EQ(LinesNow(&source), std::vector<std::string>{"one"});
  TakeBackTo("one\n");
  Append("two\nthree\n");
  EXPECT_EQ(source.Look(), Change::kNone);
  EXPECT_EQ(LinesNow(&source), (std::vector<std::string>{"two", "three"}));
}

TEST_F(LineSourceTest, ReadsAPipe) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  const int both = open(path_.c_str(), O_RDWR | O_CLOEXEC);  // so that no end waits for the other
  ASSERT_GE(both, 0);
  LineSource source = Opened();
  ASSERT_EQ(write(both, "one\ntw", 6), 6);
  std::string_view line;
  EXPECT_EQ(*source.Next(&line), Got::kLine);
  EXPECT_EQ(line, "one");
  ASSERT_EQ(write(both, "o\nhalf", 6), 6);
  close(both);
  EXPECT_EQ(LinesNow(&source), std::vector<std::string>{"two"});
  EXPECT_EQ(source.rest(), "half");
}

TEST_F(LineSourceTest, AMissingFileIsAnError) {
  const auto source = LineSource::Open(path_ + ".no");
  EXPECT_EQ(source.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(source.status().message().find(path_ + ".no"), absl::string_view::npos);
  EXPECT_FALSE(LineSource::Open(folder_.path()).ok());
}

}  // namespace
}  // namespace baton
