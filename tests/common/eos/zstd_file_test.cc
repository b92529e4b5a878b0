#include "common/eos/zstd_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "common/eos/line_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

class ZstdFileTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / name; }
  void Write(const std::string& name, const std::string& text) const { folder_.Write(name, text); }
  std::string Content(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  absl::Status Compress(const std::string& name) const {
    return CompressFile(Path(name), Path(name + ".zst"), [] { return false; });
  }
  // All lines of a file, and what its reading ended with.
  absl::Status Read(const std::string& name) {
    lines_.clear();
    auto source = LineSource::Open(Path(name));
    if (!source.ok()) return source.status();
    std::string_view line;
    while (true) {
      const auto got = source->Next(&line);
      if (!got.ok()) return got.status();
      if (*got == LineSource::Got::kEnd) return absl::OkStatus();
      lines_.emplace_back(line);
    }
  }
  // Lines that no compression shrinks to nothing.
  static std::vector<std::string> ManyLines() {
    std::vector<std::string> lines;
    uint64_t state = 1;
    for (int i = 0; i < 60000; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      lines.push_back(std::to_string(i) + " " + std::to_string(state));
    }
    return lines;
  }
  static std::string Joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
  }

  std::vector<std::string> lines_;
  const ScratchFolder folder_;
};

TEST_F(ZstdFileTest, LinesComeBackAsTheyWere) {
  const std::vector<std::string> lines = ManyLines();
  Write("log", Joined(lines));
  ASSERT_TRUE(Compress("log").ok());
  EXPECT_LT(std::filesystem::file_size(Path("log.zst")),
            std::filesystem::file_size(Path("log")) * 3 / 4);
  ASSERT_TRUE(Read("log.zst").ok());
  EXPECT_EQ(lines_, lines);
  EXPECT_FALSE(std::filesystem::exists(Path("log.zst.tmp")));
}

TEST_F(ZstdFileTest, FramesBehindEachOtherAreOneFileWhateverItsName) {
  Write("a", "one\ntw");
  Write("b", "o\nthree\n");
  ASSERT_TRUE(Compress("a").ok());
  ASSERT_TRUE(Compress("b").ok());
  Write("both", Content("a.zst") + Content("b.zst"));
  ASSERT_TRUE(Read("both").ok());
  EXPECT_EQ(lines_, (std::vector<std::string>{"one", "two", "three"}));
}

TEST_F(ZstdFileTest, AnEmptyFileIsAFrameWithoutLines) {
  Write("log", "");
  ASSERT_TRUE(Compress("log").ok());
  EXPECT_TRUE(Read("log.zst").ok());
  EXPECT_TRUE(lines_.empty());
}

TEST_F(ZstdFileTest, AFrameThatWasCutOffSaysSoAfterItsLines) {
  const std::vector<std::string> lines = ManyLines();
  Write("log", Joined(lines));
  ASSERT_TRUE(Compress("log").ok());
  const auto size = std::filesystem::file_size(Path("log.zst"));
  for (const auto cut : {size - 1, size / 2, uintmax_t{3}, uintmax_t{0}}) {
    std::filesystem::resize_file(Path("log.zst"), cut);
    const absl::Status read = Read("log.zst");
    EXPECT_EQ(read.code(), absl::StatusCode::kDataLoss) << read;
    EXPECT_THAT(std::string(read.message()),
                HasSubstr("was cut off after " + std::to_string(cut) + " bytes"));
    EXPECT_EQ(lines_.empty(), cut < 100);
    EXPECT_TRUE(std::equal(lines_.begin(), lines_.end(), lines.begin()));
  }
}

TEST_F(ZstdFileTest, ADamagedFrameIsTold) {
  Write("log", Joined(ManyLines()));
  ASSERT_TRUE(Compress("log").ok());
  std::string bytes = Content("log.zst");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x55);
  Write("log.zst", bytes);
  const absl::Status read = Read("log.zst");
  EXPECT_EQ(read.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read.message()), HasSubstr("is damaged"));
  Write("text.zst", "no frame at all\n");
  EXPECT_EQ(Read("text.zst").code(), absl::StatusCode::kDataLoss);
}

TEST_F(ZstdFileTest, NothingIsLeftOfWhatWasNotDone) {
  Write("log", Joined(ManyLines()));
  int pieces = 0;
  const absl::Status stopped =
      CompressFile(Path("log"), Path("log.zst"), [&] { return ++pieces == 2; });
  EXPECT_EQ(stopped.code(), absl::StatusCode::kCancelled);
  std::filesystem::create_symlink("/dev/full", Path("log.zst.tmp"));
  EXPECT_EQ(Compress("log").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Compress("absent").code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(Path("log.zst.tmp"))));
  EXPECT_FALSE(std::filesystem::exists(Path("log.zst")));
  EXPECT_EQ(Content("log"), Joined(ManyLines()));
}

}  // namespace
}  // namespace baton
