// What a file of shared weights may cost: disks that are full, small or slow, loads that were
// killed, and waiting for another worker.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "common/model/packed/packed_file.h"
#include "tests/common/model/packed/shared_weights_fixture.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/log_text.h"

namespace baton::test {
namespace {

using SharedWeightsLimitsTest = SharedWeightsTest;

TEST_F(SharedWeightsLimitsTest, AFullDiskCostsTheCacheOnly) {
  MakeModel({.hidden = 256, .ffn = 512, .dtype = "float32"});
  const Loaded plain = Load(Plain());
  const Loaded loaded = LoadOnFullDisk();
  EXPECT_EQ(loaded.mapped_bytes, 0U);
  EXPECT_EQ(loaded.bits, plain.bits);
  EXPECT_THAT(Files(), testing::IsEmpty());
}

TEST_F(SharedWeightsLimitsTest, WhatAKilledLoadLeftIsReplaced) {
  MakeModel({.dtype = "float32"});
  LoadMapped();
  const std::string file = File();
  const std::string whole = ReadFile(file);
  std::filesystem::remove(file);
  std::ofstream(file + ".tmp") << whole << "and more";
  LoadMapped();
  EXPECT_EQ(File(), file);
  EXPECT_EQ(ReadFile(file), whole);
}

TEST_F(SharedWeightsLimitsTest, AFileThatCannotBeMadeCostsTheCacheOnly) {
  MakeModel({.dtype = "float32"});
  const Loaded first = LoadMapped();
  const std::string file = File();
  std::filesystem::remove(file);
  std::filesystem::create_directory(file + ".tmp");
  EXPECT_EQ(LoadOwn().bits, first.bits);
  EXPECT_THAT(Files(), testing::IsEmpty());
}

TEST_F(SharedWeightsLimitsTest, LoadsSideBySideShareOneFile) {
  MakeModel({.dtype = "float32"});
  const Loaded plain = Load(Plain());
  std::vector<Loaded> loaded(4);
  std::vector<std::thread> threads;
  for (Loaded& result : loaded) {
    threads.emplace_back([&] { result = LoadMapped(); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Loaded& result : loaded) EXPECT_EQ(result.bits, plain.bits);
  const FileState written = StateOf(File());
  EXPECT_EQ(LoadMapped().bits, plain.bits);
  EXPECT_EQ(StateOf(File()), written);
}

// The lock is held by a load that never comes to an end.
TEST_F(SharedWeightsLimitsTest, AWaitEndsWithWeightsOfItsOwn) {
  MakeModel({.dtype = "float32"});
  auto mapped = MappedBytes(std::chrono::minutes(5));
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_GT(*mapped, 0U);
  const std::string file = File();
  const std::string whole = ReadFile(file);
  std::filesystem::remove(file);
  const int held = open((file + ".lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(held, LOCK_EX | LOCK_NB), 0);
  std::ofstream(file + ".tmp") << "being written";
  std::thread growth([&] {
    for (int i = 0; i < 100; ++i) {
      std::ofstream(file + ".tmp", std::ios::app) << ".";
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  mapped = MappedBytes(std::chrono::milliseconds(60));
  growth.join();
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(*mapped, 0U);
  EXPECT_EQ(ReadFile(file + ".tmp"), "being written" + std::string(100, '.'))
      << "two wrote at once";
  close(held);  // killed
  mapped = MappedBytes(std::chrono::minutes(5));
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_GT(*mapped, 0U);
  EXPECT_EQ(ReadFile(file), whole);
}

TEST_F(SharedWeightsLimitsTest, AWaitTakesWhatTheOtherWrote) {
  MakeModel({.dtype = "float32"});
  ASSERT_TRUE(MappedBytes(std::chrono::minutes(5)).ok());
  const std::string file = File();
  std::filesystem::rename(file, dir_ / "written");
  const int held = open((file + ".lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(held, LOCK_EX | LOCK_NB), 0);
  absl::StatusOr<size_t> mapped;
  std::thread load([&] { mapped = MappedBytes(std::chrono::minutes(5)); });
  std::filesystem::rename(dir_ / "written", file);
  const FileState written = StateOf(file);
  close(held);
  load.join();
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_GT(*mapped, 0U);
  EXPECT_EQ(StateOf(file), written);
}

// Of many workers, only the first tries what failed.
TEST_F(SharedWeightsLimitsTest, AWaitForWhatFailedEndsWithWeightsOfItsOwn) {
  MakeModel({.dtype = "float32"});
  ASSERT_TRUE(MappedBytes(std::chrono::minutes(5)).ok());
  const std::string file = File();
  std::filesystem::remove(file);
  const int held = open((file + ".lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(held, LOCK_EX | LOCK_NB), 0);
  absl::StatusOr<size_t> mapped;
  std::thread load([&] { mapped = MappedBytes(std::chrono::minutes(5)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  close(held);  // without a file
  load.join();
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(*mapped, 0U);
  EXPECT_THAT(Files(), testing::IsEmpty());
  mapped = MappedBytes(std::chrono::minutes(5));
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_GT(*mapped, 0U) << "the next start tries again";
}

// Pods that start together, of which one has the file of another model under this name.
TEST_F(SharedWeightsLimitsTest, AWaitForWhatIsNotForThisOneSaysSo) {
  MakeModel({.dtype = "float32"});
  ASSERT_TRUE(MappedBytes(std::chrono::minutes(5)).ok());
  const std::string file = File();
  const std::string name = std::filesystem::path(file).filename();
  const auto folder = PackedFolder::Open(cache_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  std::filesystem::remove(file);
  OwnedFile held = std::move(folder->TryLock(name + ".lock")).value();
  const LogText log;
  absl::StatusOr<size_t> mapped;
  std::thread load([&] { mapped = MappedBytes(std::chrono::minutes(5)); });
  EXPECT_TRUE(
      Eventually([&] { return log.str().find("waiting for another") != std::string::npos; }));
  auto writer = PackedFileWriter::Create(*folder, name, "another model", {});
  ASSERT_TRUE(writer.ok() && (*writer)->Commit().ok());
  const FileState written = StateOf(file);
  held = OwnedFile();
  load.join();
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(*mapped, 0U);
  EXPECT_EQ(StateOf(file), written);
  EXPECT_THAT(log.str(), testing::AllOf(testing::HasSubstr("left what is not used here: "),
                                        testing::HasSubstr("holds 'another model'")));
}

// Copies that are loaded at once find out one beside the other that the file is theirs.
TEST_F(SharedWeightsLimitsTest, CopiesSideBySideShareOneFile) {
  MakeModel({.dtype = "float32"});
  ASSERT_TRUE(MappedBytes(std::chrono::minutes(5)).ok());
  const FileState written = StateOf(File());
  const std::string weights = model_ + "/model.safetensors";
  std::filesystem::last_write_time(
      weights, std::filesystem::last_write_time(weights) + std::chrono::seconds(1));
  std::vector<absl::StatusOr<size_t>> mapped(4);
  std::vector<std::thread> threads;
  for (auto& result : mapped) {
    threads.emplace_back([&] { result = MappedBytes(std::chrono::minutes(5)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : mapped) EXPECT_GT(result.value_or(0), 0U) << result.status();
  EXPECT_EQ(StateOf(File()), written);
}

TEST_F(SharedWeightsLimitsTest, ADiskThatIsTooSlowCostsTheCacheOnly) {
  MakeModel({.dtype = "float32"});
  const auto mapped = MappedBytes(std::chrono::nanoseconds(1));
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(*mapped, 0U);
  EXPECT_THAT(Files(), testing::IsEmpty());
}

// More layers than any disk holds, of which the checkpoint has two: nothing looks for the others.
TEST_F(SharedWeightsLimitsTest, ADiskWithoutRoomIsKnownBeforeAnythingIsPacked) {
  MakeModel({.dtype = "float32"});
  ASSERT_TRUE(MakeCacheDir(cache_).ok());
  auto config = LoadModelConfig(model_);
  ASSERT_TRUE(config.ok()) << config.status();
  const auto shape = LocalShape::Of(*config, 0, 1);
  const auto files = CheckpointFiles::Open(model_);
  const auto backend = kernels::MakeBackend({.compute_dtype = kernels::DType::kBF16, .threads = 1});
  ASSERT_TRUE(shape.ok() && files.ok() && backend.ok());
  const WeightJob job = {*config, *shape, **files, **backend, nullptr};
  const int64_t most = MostPackedBytes(job);
  LoadCachePlace place = {.dir = cache_, .key = {.fingerprint = "f", .checkpoint = "c"}};
  const auto mapped = LoadSharedWeights(job, place);
  ASSERT_TRUE(mapped.ok() && mapped->has_value()) << mapped.status();
  EXPECT_LE((*mapped)->mapped_bytes(), static_cast<size_t>(most));
  EXPECT_GE((*mapped)->mapped_bytes(), static_cast<size_t>(most / 4));
  config->layers = 1'000'000'000;
  place.key.fingerprint = "g";
  const auto own = LoadSharedWeights(job, place);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_FALSE(own->has_value());
}

}  // namespace
}  // namespace baton::test
