#include "common/base/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::HasSubstr;

class OutputFileTest : public testing::Test {
 protected:
  std::string path(std::string_view name) const { return folder_ / name; }
  std::string Link(std::string_view name, const std::string& to) const {
    fs::create_symlink(to, path(name));
    return path(name);
  }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  int64_t Files() const { return std::distance(fs::directory_iterator(folder_.path()), {}); }
  static std::string ErrorAt(const std::string& path) {
    return std::string(WriteWholeFile(path, "new").message());
  }

  const ScratchFolder folder_;
};

TEST_F(OutputFileTest, NobodySeesItBeforeItIsFinished) {
  folder_.Write("file", "old");
  auto file = OutputFile::Create(path("file"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Write("new").ok());
  ASSERT_TRUE((*file)->Flush().ok());
  EXPECT_EQ(Read(path("file")), "old");
  EXPECT_EQ(Read((*file)->written()), "new");
  ASSERT_TRUE((*file)->Finish().ok());
  EXPECT_EQ(Read(path("file")), "new");
  EXPECT_EQ(Files(), 1);
  file->reset();
  EXPECT_EQ(Read(path("file")), "new");
}

TEST_F(OutputFileTest, WhatIsNotFinishedGoesUnlessItIsKept) {
  (*OutputFile::Create(path("file"), ".part"))->Write("half").IgnoreError();
  EXPECT_EQ(Files(), 0);
  {
    const auto kept = OutputFile::Create(path("file"), ".part");
    ASSERT_TRUE((*kept)->Write("half").ok());
    (*kept)->Keep();
  }
  EXPECT_EQ(Read(path("file.part")), "half");
  EXPECT_EQ(Files(), 1);
}

TEST_F(OutputFileTest, ALinkStaysAndTheFileThatItLeadsToIsReplacedInItsFolder) {
  fs::create_directory(path("folder"));
  folder_.Write("folder/file", "old");
  Link("folder/near", "file");
  const std::string link = Link("link", "folder/near");
  const fs::path held = path("held");
  fs::create_hard_link(path("folder/file"), held);
  const auto file = OutputFile::Create(link);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->written(), path("folder/file.tmp"));
  ASSERT_TRUE((*file)->Write("new").ok() && (*file)->Finish().ok());
  EXPECT_TRUE(fs::is_symlink(link) && fs::is_symlink(path("folder/near")));
  EXPECT_EQ(Read(path("folder/file")), "new");
  EXPECT_EQ(Read(held), "old") << "it was written in place";
}

TEST_F(OutputFileTest, ALinkToNothingGetsItsFile) {
  const std::string link = Link("link", "file");
  ASSERT_TRUE(WriteWholeFile(link, "new").ok());
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(Read(path("file")), "new");
}

TEST_F(OutputFileTest, APipeIsWrittenInPlace) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const std::string link = Link("link", "pipe");
  const int reader = open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  const absl::Cleanup close_reader = [reader] { close(reader); };
  for (const std::string& name : {path("pipe"), link}) {
    ASSERT_TRUE(WriteWholeFile(name, "new").ok());
    char read_back[8];
    EXPECT_EQ(read(reader, read_back, sizeof(read_back)), 3) << name;
    EXPECT_TRUE(fs::is_fifo(path("pipe")));
  }
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(Files(), 2);
}

// As a shell's `> file` and `>> file` leave it open, and /dev/stdout is such a link.
TEST_F(OutputFileTest, AnOpenFileGoesOnWhereItStands) {
  folder_.Write("file", "before ");
  const int open_file = open(path("file").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  ASSERT_GE(open_file, 0);
  const absl::Cleanup close_file = [open_file] { close(open_file); };
  const std::string number = std::to_string(open_file);
  std::string expected = "before ";
  for (const std::string& name :
       {Link("proc", "/proc/self/fd/" + number), Link("dev", "/dev/fd/" + number),
        Link("twice", "proc"), "/proc/self/fd/" + number, "/dev/fd/" + number}) {
    const absl::Status written = WriteWholeFile(name, "new ");
    ASSERT_TRUE(written.ok()) << written;
    expected += "new ";
    EXPECT_EQ(Read(path("file")), expected) << name;
  }
  ASSERT_EQ(write(open_file, "behind", 6), 6);
  EXPECT_EQ(Read(path("file")), expected + "behind");
  EXPECT_TRUE(fs::is_symlink(path("proc")) && fs::is_symlink(path("dev")));
  EXPECT_FALSE(fs::is_symlink(path("file")));
  EXPECT_EQ(Files(), 4);
}

TEST_F(OutputFileTest, ErrorsNameWhatIsWrittenAndTheLinkToIt) {
  EXPECT_THAT(ErrorAt(path("none/file")), HasSubstr("cannot write " + path("none/file")));
  const std::string far = Link("far", "none/file");
  EXPECT_THAT(ErrorAt(far), AllOf(HasSubstr("cannot write " + path("none/file")), HasSubstr(far),
                                  HasSubstr("No such file")));
  EXPECT_TRUE(fs::is_symlink(far));
  EXPECT_THAT(ErrorAt(folder_.path()), AllOf(HasSubstr(folder_.path()), HasSubstr("directory")));
  const std::string closed = Link("closed", "/proc/self/fd/987654");
  EXPECT_THAT(ErrorAt(closed), AllOf(HasSubstr(closed), HasSubstr("Bad file descriptor")));
  const std::string full = Link("full", "/dev/full");
  EXPECT_THAT(ErrorAt(full), AllOf(HasSubstr("/dev/full"), HasSubstr(full), HasSubstr("No space")));
  EXPECT_TRUE(fs::is_symlink(full));
}

TEST_F(OutputFileTest, LinksInACircleAreAnError) {
  const std::string one = Link("one", "other");
  Link("other", "one");
  EXPECT_THAT(ErrorAt(one), AllOf(HasSubstr(one), HasSubstr("symbolic links")));
  EXPECT_TRUE(fs::is_symlink(one) && fs::is_symlink(path("other")));
  EXPECT_EQ(Files(), 2);
}

TEST_F(OutputFileTest, ADiskWithoutRoomLeavesWhatWasThere) {
  folder_.Write("file", "old");
  Link("file.tmp", "/dev/full");
  EXPECT_THAT(ErrorAt(path("file")), HasSubstr("No space"));
  EXPECT_EQ(Read(path("file")), "old");
  EXPECT_EQ(Files(), 1);
}

// What looks like a link in /proc may lead to a file whose place it says nothing of.
TEST_F(OutputFileTest, LinksEndInProc) {
  EXPECT_EQ(FollowLinks(Link("out", "/proc/self/fd/1")), "/proc/self/fd/1");
  EXPECT_EQ(FollowLinks(Link("file", "/proc/self/cwd/none")), "/proc/self/cwd/none");
  EXPECT_TRUE(IsInProc("/dev/fd/1") && IsInProc("/proc/self/exe"));
  EXPECT_FALSE(IsInProc("/proc/self/cwd/none") || IsInProc(path("file")) || IsInProc("none"));
}

}  // namespace
}  // namespace baton
