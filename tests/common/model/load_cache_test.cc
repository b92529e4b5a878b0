// A load by way of a cache of rows packs what a load from the checkpoint packs, to the bit,
// whatever happened to the cache's file. The oracle stands for the devices that have such caches.
#include "common/model/load_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/common/model/load_cache_fixture.h"

namespace baton::test {
namespace {

using kernels::DType;
using testing::HasSubstr;

class LoadCacheTest : public LoadCacheFixture<kernels::Device::kReference> {};

TEST_F(LoadCacheTest, EveryKindOfModelIsPackedAlike) {
  const std::vector<RandomModelSpec> specs = {
      {.arch = "llama", .dtype = "float32"},
      {.arch = "qwen2", .dtype = "bfloat16", .tied_embeddings = true},
      {.arch = "qwen3", .heads = 6, .head_dim = 24, .dtype = "float16"},
      {.arch = "mistral", .ffn = 98, .vocab = 259, .dtype = "bfloat16"}};
  for (const RandomModelSpec& spec : specs) {
    MakeModel(spec);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const int32_t ranks : {1, 2}) {
        SCOPED_TRACE(spec.arch + " " + std::string(Name(dtype)) + " on " + std::to_string(ranks));
        std::filesystem::remove_all(cache_);
        ModelOptions options = {
            .dtype = dtype, .device = kernels::Device::kReference, .tensor_parallel_size = ranks};
        const Loaded plain = Load(options);
        options.load_cache = cache_;
        EXPECT_EQ(Load(options).bits, plain.bits) << "while it is written";
        EXPECT_EQ(Files().size(), static_cast<size_t>(ranks));
        EXPECT_EQ(Load(options).bits, plain.bits) << "from the cache";
      }
    }
  }
}

TEST_F(LoadCacheTest, TheSecondLoadReadsTheCache) {
  MakeModel({.dtype = "float32"});
  const int64_t checkpoint = Load(Cached()).read;
  const std::string file = File();
  const auto written = std::filesystem::last_write_time(file);
  EXPECT_LT(Load(Cached()).read, checkpoint * 6 / 10);
  EXPECT_EQ(std::filesystem::last_write_time(file), written);
}

TEST_F(LoadCacheTest, ADamagedFileIsWrittenAnew) {
  MakeModel({.dtype = "float32"});
  const Loaded plain = Load(Plain());
  Load(Cached());
  const std::string file = File();
  const std::string whole = ReadFile(file);
  const auto size = static_cast<int64_t>(whole.size());
  // The header's length, entries, checksums, and weights from the first to the last byte.
  for (const int64_t at : {int64_t{0}, int64_t{20}, int64_t{300}, size / 4, size / 2, size - 1}) {
    SCOPED_TRACE(at);
    Damage(file, at);
    const Loaded loaded = Load(Cached());
    EXPECT_EQ(loaded.bits, plain.bits);
    EXPECT_EQ(ReadFile(file), whole);
  }
}

TEST_F(LoadCacheTest, AnyByteOfTheChecksumsCounts) {
  MakeModel({.dtype = "float32"});
  Load(Cached());
  const std::string file = File();
  const std::string whole = ReadFile(file);
  const size_t sums = whole.find("crc32c");
  ASSERT_NE(sums, std::string::npos);
  Damage(file, static_cast<int64_t>(sums) + 12);
  Load(Cached());
  EXPECT_EQ(ReadFile(file), whole);
}

TEST_F(LoadCacheTest, AFileThatEndsEarlyIsWrittenAnew) {
  MakeModel({.dtype = "float32"});
  const Loaded first = Load(Cached());
  const std::string file = File();
  const std::string whole = ReadFile(file);
  for (const size_t bytes :
       {size_t{0}, size_t{7}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    SCOPED_TRACE(bytes);
    std::filesystem::resize_file(file, bytes);
    EXPECT_EQ(Load(Cached()).bits, first.bits);
    EXPECT_EQ(ReadFile(file), whole);
  }
}

// In places that the fingerprint does not sample.
TEST_F(LoadCacheTest, ACheckpointThatChangedIsReadAnew) {
  MakeModel({.hidden = 128, .dtype = "float32"});
  const Loaded before = Load(Cached());
  const std::string name = File();
  const std::string weights = model_ + "/model.safetensors";
  const auto size = static_cast<int64_t>(std::filesystem::file_size(weights));
  for (int64_t at = size - 40000; at < size - 20000; at += 4) Damage(weights, at + 2);
  const auto time = std::filesystem::last_write_time(weights);
  std::filesystem::last_write_time(weights, time + std::chrono::seconds(2));
  const Loaded after = Load(Cached());
  EXPECT_EQ(after.bits, Load(Plain()).bits);
  EXPECT_NE(after.bits, before.bits);
  EXPECT_EQ(Load(Cached()).bits, after.bits);
  EXPECT_EQ(File(), name)
      << "the fingerprint saw the change, this test does not show what it should";
}

TEST_F(LoadCacheTest, WhatWasReadOtherwiseIsReadAnew) {
  MakeModel({.dtype = "float32"});
  Load(Cached());
  const std::string file = File();
  const std::string whole = ReadFile(file);
  for (const char* reading : {"reading 0", "seen as 9", "reading 1"}) {
    std::string other = whole;
    const size_t at = other.find("reading ");
    ASSERT_NE(at, std::string::npos);
    std::ofstream(file) << other.replace(at, 9, reading);
    Load(Cached());
    EXPECT_EQ(ReadFile(file), whole) << reading;
  }
}

TEST_F(LoadCacheTest, DtypesAndRanksHaveFilesOfTheirOwn) {
  MakeModel({.dtype = "float32"});
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int32_t ranks : {1, 2}) {
      ModelOptions options = Cached();
      options.dtype = dtype;
      options.tensor_parallel_size = ranks;
      Load(options);
    }
  }
  EXPECT_EQ(Files().size(), 6U);
}

TEST_F(LoadCacheTest, AnotherModelsFileUnderThisNameIsRefused) {
  MakeModel({.dtype = "float32", .seed = 1});
  Load(Cached());
  const std::string other = File();
  MakeModel({.dtype = "float32", .seed = 2});
  const Loaded plain = Load(Plain());
  std::filesystem::rename(other, dir_ / "kept");
  Load(Cached());
  const std::string own = File();
  std::filesystem::copy_file(dir_ / "kept", own, std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(Load(Cached()).bits, plain.bits);
  EXPECT_NE(ReadFile(own), ReadFile(dir_ / "kept"));
}

TEST_F(LoadCacheTest, AFullDiskCostsTheCacheOnly) {
  MakeModel({.hidden = 256, .ffn = 512, .dtype = "float32"});
  const Loaded plain = Load(Plain());
  const Loaded loaded = LoadOnFullDisk();
  EXPECT_EQ(loaded.bits, plain.bits);
  EXPECT_TRUE(Files().empty()) << testing::PrintToString(Files());
}

TEST_F(LoadCacheTest, ADirectoryThatCannotBeMadeIsRefused) {
  MakeModel({.dtype = "float32"});
  std::ofstream(cache_) << "a file";
  const auto loaded = TryLoad(Cached());
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("--load-cache " + cache_));
}

// As one behind a folder that this user may not enter, which a test of root's cannot make.
TEST_F(LoadCacheTest, ADirectoryThatCannotBeLookedAtIsRefused) {
  MakeModel({.dtype = "float32"});
  std::filesystem::create_symlink(cache_, cache_);
  ModelOptions options = Cached();
  options.load_cache = cache_ + "/below";
  const auto loaded = TryLoad(options);
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument) << loaded.status();
  EXPECT_THAT(
      std::string(loaded.status().message()),
      testing::AllOf(HasSubstr("--load-cache " + cache_ + "/below"), HasSubstr("symbolic links")));
}

TEST_F(LoadCacheTest, WhatAKilledLoadLeftIsWrittenAnew) {
  MakeModel({.dtype = "float32"});
  Load(Cached());
  const std::string file = File();
  const std::string whole = ReadFile(file);
  std::filesystem::remove(file);
  std::ofstream(file + ".tmp") << whole << "and more";
  Load(Cached());
  EXPECT_EQ(File(), file);
  EXPECT_EQ(ReadFile(file), whole);
}

TEST_F(LoadCacheTest, WhatAnotherLoadWritesIsLeftToIt) {
  MakeModel({.dtype = "float32"});
  const Loaded plain = Load(Cached());
  const std::string file = File();
  std::filesystem::remove(file);
  std::ofstream(file + ".tmp") << "being written";
  const int held = open((file + ".tmp").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(held, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(Load(Cached()).bits, plain.bits);
  EXPECT_EQ(File(), file + ".tmp") << "one of the two writes";
  EXPECT_EQ(ReadFile(file + ".tmp"), "being written");
  close(held);  // killed
  EXPECT_EQ(Load(Cached()).bits, plain.bits);
  EXPECT_EQ(File(), file);
}

// Whoever opened the file just before its writer moved or removed it holds a file that is not to
// be written any more.
TEST_F(LoadCacheTest, AWritersFileIsItsOwnToTheEnd) {
  constexpr int kRounds = 2000;
  std::filesystem::create_directory(cache_);
  const LoadCacheKey key = {.fingerprint = "f", .checkpoint = "c"};
  const std::vector<float> values(64, 1.5F);
  const kernels::HostTensor tensor = {
      .data = values.data(), .dtype = kernels::DType::kF32, .rows = 8, .cols = 8};
  std::atomic<int> committed{0};
  std::vector<absl::Status> failures(4);
  std::vector<std::thread> threads;
  for (absl::Status& failure : failures) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds && failure.ok(); ++round) {
        auto writer = LoadCacheWriter::Create(cache_, key, 1, 256);
        if (absl::IsAborted(writer.status())) continue;
        failure.Update(writer.status());
        if (!failure.ok()) break;
        failure.Update((*writer)->Add("t", tensor));
        if (round % 2 == 0) continue;  // given up, and removed
        failure.Update((*writer)->Commit());
        ++committed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& failure : failures) EXPECT_TRUE(failure.ok()) << failure;
  EXPECT_GT(committed, 0);
  EXPECT_THAT(Files(), testing::SizeIs(1));
  auto reader = LoadCacheReader::Open(cache_, key);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE((*reader)->Read("t", kernels::DType::kF32, 8, 8).ok());
}

TEST_F(LoadCacheTest, AFileThatCannotBeOpenedCostsTheCacheOnly) {
  MakeModel({.dtype = "float32"});
  const Loaded plain = Load(Cached());
  const std::string file = File();
  std::filesystem::remove(file);
  std::filesystem::create_directory(file + ".tmp");
  EXPECT_EQ(Load(Cached()).bits, plain.bits);
  EXPECT_EQ(File(), file + ".tmp");
}

TEST_F(LoadCacheTest, LoadsSideBySideWriteOneWholeFile) {
  MakeModel({.dtype = "float32"});
  const Loaded plain = Load(Plain());
  std::vector<Loaded> loaded(3);
  std::vector<std::thread> threads;
  for (Loaded& result : loaded) {
    threads.emplace_back([&] { result = Load(Cached()); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Loaded& result : loaded) EXPECT_EQ(result.bits, plain.bits);
  File();
  EXPECT_EQ(Load(Cached()).bits, plain.bits);
}

}  // namespace
}  // namespace baton::test
