// What is written is read again, and a file is believed only as far as it holds together.
#include "common/model/packed/packed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/crc32c.h"
#include "common/model/packed/packed_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using testing::HasSubstr;

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class PackedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    auto folder = PackedFolder::Open(dir_.path());
    ASSERT_TRUE(folder.ok()) << folder.status();
    folder_ = std::make_unique<PackedFolder>(std::move(folder).value());
  }
  absl::StatusOr<std::unique_ptr<PackedFile>> Open(const std::string& identity = "weights") {
    return PackedFile::Open(*folder_, "f", identity);
  }
  // Makes the file one of these bytes of data and this table.
  void Put(const std::string& data, const std::string& json) {
    const packed::Tail tail = {.data_bytes = data.size(),
                               .json_bytes = json.size(),
                               .json_sum = base::Crc32c(BytesOf(json))};
    std::string bytes = data + json;
    bytes.append(reinterpret_cast<const char*>(&tail), sizeof(tail));
    folder_->Remove("f");
    dir_.Write(Path(), bytes);
    ASSERT_EQ(chmod((dir_ / Path()).c_str(), 0600), 0);
  }
  std::string Path() const { return folder_->PathOf("f").substr(dir_.path().size() + 1); }
  // A table with this list of parts for image "a" of 16384 bytes of data.
  absl::Status WithParts(const std::string& parts) {
    const std::string data(16384, 'x');
    char sum[9];
    snprintf(sum, sizeof(sum), "%08x", base::Crc32c(BytesOf(data)));
    Put(data, std::string(R"({"identity":"weights","crc32c":")") + sum +
                  R"(","images":{"a":{"form":"x","parts":)" + parts + "}}}");
    return Open().status();
  }

  // Writes a file that is long enough for the disk to be waited for while it is written.
  absl::Status WriteLarge(DiskCalls disk) {
    constexpr int kPieces = 10;
    auto writer = PackedFileWriter::Create(*folder_, "f", "weights", {}, std::move(disk));
    if (!writer.ok()) return writer.status();
    const std::string piece(packed::kPieceBytes, 'p');
    for (int i = 0; i < kPieces; ++i) {
      const absl::Status added =
          (*writer)->Add(std::to_string(i), {.form = "x", .parts = {BytesOf(piece)}});
      if (!added.ok()) return added;
    }
    return (*writer)->Commit();
  }

  const ScratchFolder dir_;
  std::unique_ptr<PackedFolder> folder_;
};

TEST_F(PackedFileTest, HoldsImagesAlignedAndWithAMargin) {
  const std::string large(packed::kPieceBytes + 12345, 'L');
  const std::vector<std::string> parts = {"seven b", large, "", std::string(64, 'm')};
  auto writer = PackedFileWriter::Create(*folder_, "f", "weights", {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (size_t i = 0; i < parts.size(); ++i) {
    const kernels::PackedImage image = {.form = "form \"" + std::to_string(i),
                                        .parts = {BytesOf(parts[i]), BytesOf(parts[0])}};
    ASSERT_TRUE((*writer)->Add("image " + std::to_string(i), image).ok());
  }
  ASSERT_TRUE((*writer)->Commit().ok());
  const auto file = Open();
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->CheckSums().ok());
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto image = (*file)->Find("image " + std::to_string(i));
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(image->form, "form \"" + std::to_string(i));
    ASSERT_EQ(image->parts.size(), 2U);
    ASSERT_EQ(image->parts[0].size(), parts[i].size());
    EXPECT_EQ(std::memcmp(image->parts[0].data(), parts[i].data(), parts[i].size()), 0);
    for (const auto part : image->parts) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(part.data()) % kernels::kImageAlignment, 0U);
      for (size_t at = 0; at < kernels::kImageMargin; ++at) {
        EXPECT_EQ(*(part.data() + part.size() + at), std::byte{0});
      }
    }
  }
  EXPECT_TRUE(absl::IsDataLoss((*file)->Find("image 9").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(Open("other weights").status()));
}

TEST_F(PackedFileTest, AWriterThatGivesUpLeavesNothing) {
  {
    auto writer = PackedFileWriter::Create(*folder_, "f", "weights", {});
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Add("a", {.form = "x", .parts = {BytesOf("abc")}}).ok());
    EXPECT_GE(folder_->SizeOf(PackedFileWriter::TemporaryOf("f")), 0);
  }
  EXPECT_EQ(folder_->SizeOf(PackedFileWriter::TemporaryOf("f")), -1);
  EXPECT_TRUE(absl::IsNotFound(Open().status()));
}

TEST_F(PackedFileTest, ADiskWithoutRoomForAllIsNotBegun) {
  const auto writer =
      PackedFileWriter::Create(*folder_, "f", "weights", {.bytes = int64_t{1} << 60});
  EXPECT_TRUE(absl::IsUnavailable(writer.status())) << writer.status();
  EXPECT_EQ(folder_->SizeOf(PackedFileWriter::TemporaryOf("f")), -1);
}

TEST_F(PackedFileTest, ASlowDiskIsGivenUp) {
  using std::chrono::seconds;
  const WriteBudget budget = {.bytes = 4000, .time = seconds(200)};
  EXPECT_TRUE(CheckPace(budget, 1, seconds(9)).ok()) << "too early to tell";
  EXPECT_TRUE(CheckPace(budget, 200, seconds(10)).ok());
  EXPECT_TRUE(absl::IsUnavailable(CheckPace(budget, 190, seconds(10))));
  EXPECT_TRUE(CheckPace(budget, 2000, seconds(100)).ok());
  EXPECT_TRUE(absl::IsUnavailable(CheckPace(budget, 1900, seconds(100))));
  EXPECT_TRUE(CheckPace(budget, 5000, seconds(199)).ok()) << "more than was expected";
  EXPECT_TRUE(absl::IsUnavailable(CheckPace(budget, 5000, seconds(201))));
}

// The system tells a disk's error once, to whoever asks first, which is no call of the end.
TEST_F(PackedFileTest, AnErrorOfTheDiskIsHeardBeforeTheEnd) {
  const auto failing = [](unsigned of_flags, int error) {
    return [=](int, off64_t, off64_t, unsigned flags) {
      errno = error;
      return (flags & of_flags) != 0 ? -1 : 0;
    };
  };
  const std::pair<unsigned, int> failures[] = {{SYNC_FILE_RANGE_WRITE, ENOSPC},
                                               {SYNC_FILE_RANGE_WRITE, EDQUOT},
                                               {SYNC_FILE_RANGE_WRITE, EROFS},
                                               {SYNC_FILE_RANGE_WAIT_AFTER, EIO}};
  for (const auto& [flags, error] : failures) {
    const absl::Status told = WriteLarge({.sync_range = failing(flags, error)});
    EXPECT_TRUE(absl::IsUnavailable(told)) << told;
    EXPECT_THAT(std::string(told.message()), HasSubstr(std::strerror(error)));
    EXPECT_TRUE(absl::IsNotFound(Open().status()));
  }
}

TEST_F(PackedFileTest, AnErrorAtTheEndLeavesNoFile) {
  const absl::Status told = WriteLarge({.sync = [](int) {
    errno = EIO;
    return -1;
  }});
  EXPECT_TRUE(absl::IsUnavailable(told)) << told;
  EXPECT_TRUE(absl::IsNotFound(Open().status()));
}

TEST_F(PackedFileTest, ASystemThatCannotBringARangeToTheDiskCostsNothing) {
  std::vector<int> refusals = {EINVAL, ESPIPE, ENOSYS, EPERM, ENOMEM};
  const auto refuse = [&](int, off64_t, off64_t, unsigned) {
    if (refusals.empty()) return 0;
    errno = refusals.back();
    refusals.pop_back();
    return -1;
  };
  const absl::Status written = WriteLarge({.sync_range = refuse});
  EXPECT_TRUE(written.ok()) << written;
  EXPECT_TRUE(refusals.empty());
  EXPECT_TRUE(Open().ok());
}

// Of a disk that said nothing and yet lost a piece: the system shows what was written until it
// forgets it, after the disk was waited for.
TEST_F(PackedFileTest, ChecksumsAreThoseOfTheDisk) {
  bool waited = false;
  const auto sync = [&](int file) {
    waited = true;
    return fsync(file);
  };
  const auto forget = [&](int file, off64_t, off64_t, int advice) {
    if (waited && advice == POSIX_FADV_DONTNEED) {
      EXPECT_EQ(pwrite(file, "lost", 4, packed::kPieceBytes), 4);
    }
    return 0;
  };
  const absl::Status written = WriteLarge({.sync = sync, .advise = forget});
  ASSERT_TRUE(written.ok()) << written;
  const auto file = Open();
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(absl::IsDataLoss((*file)->CheckSums())) << "nobody had the system forget";
}

// The pages behind the end of a file are what a disk does not give.
TEST_F(PackedFileTest, WhatTheDiskDoesNotGiveIsDamage) {
  auto writer = PackedFileWriter::Create(*folder_, "f", "weights", {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  const std::string large(1 << 20, 'L');
  ASSERT_TRUE((*writer)->Add("a", {.form = "x", .parts = {BytesOf(large)}}).ok());
  ASSERT_TRUE((*writer)->Commit().ok());
  const auto file = Open();
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::Status whole = (*file)->Populate([](int64_t) {});
  EXPECT_TRUE(whole.ok()) << whole;
  ASSERT_EQ(truncate((dir_ / Path()).c_str(), 4096), 0);
  const absl::Status torn = (*file)->Populate([](int64_t) {});
  ASSERT_TRUE(absl::IsDataLoss(torn)) << torn << "; kernels before 5.14 do not tell";
  EXPECT_THAT(std::string(torn.message()), HasSubstr("it cannot be read"));
}

TEST(UnfitFileSystemTest, IsInMemoryOrElsewhere) {
  EXPECT_THAT(std::string(UnfitFileSystem(0x01021994)), HasSubstr("memory"));           // tmpfs
  EXPECT_THAT(std::string(UnfitFileSystem(0x858458f6)), HasSubstr("memory"));           // ramfs
  EXPECT_THAT(std::string(UnfitFileSystem(0x6969)), HasSubstr("another machine"));      // NFS
  EXPECT_THAT(std::string(UnfitFileSystem(0xff534d42)), HasSubstr("another machine"));  // CIFS
  // ext4, XFS, btrfs and overlay.
  for (const uint32_t disk : {0xef53U, 0x58465342U, 0x9123683eU, 0x794c7630U}) {
    EXPECT_EQ(UnfitFileSystem(disk), "");
  }
}

TEST_F(PackedFileTest, PartsOutsideTheDataAreRefused) {
  EXPECT_TRUE(WithParts("[[0,16320]]").ok()) << WithParts("[[0,16320]]");
  EXPECT_TRUE(WithParts("[[12288,4032]]").ok());
  EXPECT_TRUE(WithParts("[]").ok());
  for (const char* parts :
       {"[[0,16321]]", "[[64,10]]", "[[12288,4033]]", "[[16384,0]]", "[[20480,1]]", "[[-4096,10]]",
        "[[0,-1]]", "[[0,18446744073709551615]]", "[[18446744073709547520,4096]]", "[[0.0,64]]",
        "[[0]]", "[[0,64,64]]", "[0,64]", "{}", "null", "\"\""}) {
    const absl::Status refused = WithParts(parts);
    EXPECT_TRUE(absl::IsDataLoss(refused)) << parts << " " << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("a has ")) << parts;
  }
}

TEST_F(PackedFileTest, TablesThatAreNoneAreRefused) {
  const std::string data(64, 'x');
  for (const char* json : {"", "[]", "{}", "null", R"({"identity":"weights"})",
                           R"({"identity":"weights","crc32c":"0123456g","images":{}})",
                           R"({"identity":"weights","crc32c":"01234567","images":[]})",
                           R"({"identity":"weights","crc32c":"01234567"})",
                           R"({"identity":"weights","crc32c":"01234567","images":{"a":[]}})",
                           R"({"identity":"weights","crc32c":"0123456789abcdef","images":{}})",
                           R"({"identity":"weights","crc32c":"01234567","images":{)"}) {
    Put(data, json);
    EXPECT_FALSE(Open().ok()) << json;
  }
  Put(data, R"({"identity":"weights","crc32c":"01234567","images":{}})");
  const auto file = Open();
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(absl::IsDataLoss((*file)->CheckSums()));
}

TEST_F(PackedFileTest, OneLockIsHeldAtATime) {
  auto lock = folder_->TryLock("f.lock");
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_TRUE(absl::IsAborted(folder_->TryLock("f.lock").status()));
  EXPECT_TRUE(folder_->TryLock("g.lock").ok());
  *lock = OwnedFile();
  EXPECT_TRUE(folder_->TryLock("f.lock").ok());
}

TEST_F(PackedFileTest, AFileSystemKeepsRoom) {
  EXPECT_TRUE(folder_->CheckRoom(1).ok()) << folder_->CheckRoom(1);
  const absl::Status full = folder_->CheckRoom(int64_t{1} << 60);
  EXPECT_TRUE(absl::IsUnavailable(full));
  EXPECT_THAT(std::string(full.message()), HasSubstr("MiB are free"));
}

}  // namespace
}  // namespace baton
