// Weights mapped from a file that workers share compute what weights of a worker's own compute, to
// the bit, whatever happened to the file.
#include "common/model/packed/shared_weights.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/model/load_cache_format.h"
#include "common/model/packed/packed_file.h"
#include "common/model/packed/packed_folder.h"
#include "common/model/tensor_specs.h"
#include "tests/common/model/packed/shared_weights_fixture.h"
#include "tests/fakes/log_text.h"

namespace baton::test {
namespace {

using kernels::DType;
using testing::HasSubstr;

TEST_F(SharedWeightsTest, EveryKindOfModelComputesAlike) {
  const std::vector<RandomModelSpec> specs = {
      {.arch = "llama", .dtype = "float32"},
      {.arch = "qwen2", .dtype = "bfloat16", .tied_embeddings = true},
      {.arch = "qwen3", .heads = 6, .head_dim = 24, .dtype = "float16"},
      {.arch = "mistral", .ffn = 98, .vocab = 259, .dtype = "bfloat16"}};
  for (const RandomModelSpec& spec : specs) {
    MakeModel(spec);
    for (const Device& device : CpuDevices()) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        for (const int32_t ranks : {1, 2}) {
          SCOPED_TRACE(spec.arch + " " + DeviceName(device) + " " + std::string(Name(dtype)) +
                       " on " + std::to_string(ranks));
          std::filesystem::remove_all(cache_);
          ModelOptions options = {.dtype = dtype, .isa = device.isa, .tensor_parallel_size = ranks};
          const Loaded plain = Load(options);
          EXPECT_EQ(plain.mapped_bytes, 0U);
          options.load_cache = cache_;
          for (const char* from : {"the checkpoint", "the cache"}) {
            const Loaded loaded = Load(options);
            EXPECT_EQ(loaded.bits, plain.bits) << "from " << from;
            EXPECT_EQ(loaded.weight_bytes, plain.weight_bytes);
            EXPECT_GE(loaded.mapped_bytes, loaded.weight_bytes);
            EXPECT_EQ(Files().size(), static_cast<size_t>(ranks));
          }
        }
      }
    }
  }
}

TEST_F(SharedWeightsTest, TheSecondLoadLeavesTheFileAlone) {
  MakeModel({.dtype = "float32"});
  const Loaded first = LoadMapped();
  const std::string file = File();
  const FileState written = StateOf(file);
  const FileState checked = StateOf(file + ".checked");
  const std::string whole = ReadFile(file);
  EXPECT_EQ(LoadMapped().bits, first.bits);
  EXPECT_EQ(StateOf(file), written);
  EXPECT_EQ(StateOf(file + ".checked"), checked);
  EXPECT_EQ(ReadFile(file), whole);
}

TEST_F(SharedWeightsTest, ADamagedFileIsReplaced) {
  MakeModel({.dtype = "float32"});
  const Loaded plain = Load(Plain());
  LoadMapped();
  const std::string file = File();
  const std::string whole = ReadFile(file);
  const auto size = static_cast<int64_t>(whole.size());
  const auto table = static_cast<int64_t>(whole.find("identity"));
  const auto sums = static_cast<int64_t>(whole.find("crc32c"));
  ASSERT_GT(sums, table);
  // Weights from the first to the last byte, the identity, checksums, entries, and the tail.
  for (const int64_t at : {int64_t{0}, size / 4, size / 2, table - 3, table + 20, sums + 12,
                           sums + 60, size - 40, size - 24, size - 12, size - 1}) {
    SCOPED_TRACE(at);
    const FileState before = StateOf(file);
    Damage(file, at);
    EXPECT_EQ(LoadMapped().bits, plain.bits);
    EXPECT_EQ(ReadFile(file), whole);
    EXPECT_NE(StateOf(file).inode, before.inode) << "it was written in place";
  }
}

TEST_F(SharedWeightsTest, AFileThatEndsEarlyIsReplaced) {
  MakeModel({.dtype = "float32"});
  const Loaded first = LoadMapped();
  const std::string file = File();
  const std::string whole = ReadFile(file);
  for (const size_t bytes :
       {size_t{0}, size_t{7}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    SCOPED_TRACE(bytes);
    std::filesystem::resize_file(file, bytes);
    EXPECT_EQ(LoadMapped().bits, first.bits);
    EXPECT_EQ(ReadFile(file), whole);
  }
}

// A note by hand in place of a check: the damage is not seen, so nothing looked for it.
TEST_F(SharedWeightsTest, WhatWasCheckedIsNotCheckedAgain) {
  MakeModel({.dtype = "float32"});
  const Loaded plain = Load(Plain());
  LoadMapped();
  const std::string file = File();
  std::string identity = ReadFile(file);
  identity = identity.substr(identity.find("\"identity\":\"") + 12);
  identity = identity.substr(0, identity.find('"'));
  const auto folder = PackedFolder::Open(cache_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  const std::string name = std::filesystem::path(file).filename();
  const auto whole = PackedFile::Open(*folder, name, identity);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto copies = (*whole)->CheckedFor(*folder);
  ASSERT_TRUE(copies.has_value());
  for (int64_t at = 2; at < 4000; at += 4) Damage(file, at + 1);
  const auto opened = PackedFile::Open(*folder, name, identity);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_FALSE((*opened)->CheckedFor(*folder).has_value());
  EXPECT_TRUE(absl::IsDataLoss((*opened)->CheckSums()));
  (*opened)->NoteChecked(*folder, *copies);
  EXPECT_EQ((*opened)->CheckedFor(*folder), copies);
  EXPECT_NE(LoadMapped().bits, plain.bits);
  std::filesystem::remove(file + ".checked");
  EXPECT_EQ(LoadMapped().bits, plain.bits);
}

// In places that the fingerprint does not sample.
TEST_F(SharedWeightsTest, ACheckpointThatChangedIsReadAnew) {
  MakeModel({.hidden = 128, .dtype = "float32"});
  const Loaded before = LoadMapped();
  const std::string name = File();
  const std::string weights = model_ + "/model.safetensors";
  const auto size = static_cast<int64_t>(std::filesystem::file_size(weights));
  for (int64_t at = size - 40000; at < size - 20000; at += 4) Damage(weights, at + 2);
  const auto time = std::filesystem::last_write_time(weights);
  std::filesystem::last_write_time(weights, time + std::chrono::seconds(2));
  const Loaded after = LoadMapped();
  EXPECT_EQ(after.bits, Load(Plain()).bits);
  EXPECT_NE(after.bits, before.bits);
  EXPECT_EQ(LoadMapped().bits, after.bits);
  EXPECT_EQ(File(), name)
      << "the fingerprint saw the change, this test does not show what it should";
}

TEST_F(SharedWeightsTest, DtypesRanksAndInstructionSetsHaveFilesOfTheirOwn) {
  MakeModel({.dtype = "float32"});
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int32_t ranks : {1, 2}) {
      Load({.dtype = dtype, .isa = "avx2", .tensor_parallel_size = ranks, .load_cache = cache_});
    }
  }
  EXPECT_EQ(Files().size(), 6U);
  if (kernels::MakeBackend({.isa = "avx512"}).ok()) {
    Load({.dtype = DType::kF32, .isa = "avx512", .load_cache = cache_});
    EXPECT_EQ(Files().size(), 7U);
  }
}

TEST_F(SharedWeightsTest, AnotherModelsFileUnderThisNameIsReplaced) {
  MakeModel({.dtype = "float32", .seed = 1});
  LoadMapped();
  const std::string other = File();
  MakeModel({.dtype = "float32", .seed = 2});
  const Loaded plain = Load(Plain());
  std::filesystem::rename(other, dir_ / "kept");
  LoadMapped();
  const std::string own = File();
  std::filesystem::copy_file(dir_ / "kept", own, std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(LoadMapped().bits, plain.bits);
  EXPECT_NE(ReadFile(own), ReadFile(dir_ / "kept"));
}

// A model keeps the file that it has mapped, though its name is another file's by now.
TEST_F(SharedWeightsTest, WhoMappedAFileKeepsIt) {
  MakeModel({.dtype = "float32"});
  ModelOptions options = Cached();
  options.threads = 1;
  options.kv.tokens = 1024;
  options.limits = {.max_tokens = 64, .max_samples = 8};
  const auto model = LoadModel(model_, options, nullptr);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto run = [&] {
    TestSequence sequence{.prompt = {1, 2, 3}};
    RunnerDriver driver(**model);
    driver.Generate({&sequence}, 6, 64);
    return sequence.output;
  };
  const auto expected = run();
  const std::string file = File();
  const FileState before = StateOf(file);
  std::filesystem::remove(file + ".checked");
  Damage(file, 0);
  Damage(file, 0);  // as it was: only the note of the check is void
  LoadMapped();
  EXPECT_EQ(StateOf(file).inode, before.inode);
  std::filesystem::resize_file(file + ".checked", 0);
  std::filesystem::permissions(file, std::filesystem::perms::group_read,
                               std::filesystem::perm_options::add);
  LoadMapped();
  EXPECT_NE(StateOf(file).inode, before.inode);
  EXPECT_EQ(run(), expected);
}

TEST_F(SharedWeightsTest, FilesAreTheUsersAlone) {
  MakeModel({.dtype = "float32"});
  const mode_t mask = umask(0);
  const Loaded first = LoadMapped();
  umask(mask);
  const std::string file = File();
  EXPECT_EQ(StateOf(Folder()).mode, static_cast<mode_t>(S_IFDIR | 0700));
  for (const char* beside : {"", ".lock", ".checked"}) {
    EXPECT_EQ(StateOf(file + beside).mode, static_cast<mode_t>(S_IFREG | 0600)) << beside;
  }
  // A file that others could read, or have written, is not believed.
  for (const mode_t mode : {0640, 0604, 0620, 0602}) {
    const FileState before = StateOf(file);
    ASSERT_EQ(chmod(file.c_str(), mode), 0);
    EXPECT_EQ(LoadMapped().bits, first.bits);
    EXPECT_EQ(StateOf(file).mode, static_cast<mode_t>(S_IFREG | 0600));
    EXPECT_NE(StateOf(file).inode, before.inode);
  }
  const std::filesystem::path moved = file + ".moved";
  std::filesystem::rename(file, moved);
  std::filesystem::create_symlink(moved, file);
  EXPECT_EQ(LoadMapped().bits, first.bits);
  EXPECT_FALSE(std::filesystem::is_symlink(file));
  if (geteuid() != 0) return;
  ASSERT_EQ(chown(file.c_str(), 12345, 12345), 0);
  EXPECT_EQ(LoadMapped().bits, first.bits);
}

TEST_F(SharedWeightsTest, AFolderThatOthersEnterIsNotUsed) {
  MakeModel({.dtype = "float32"});
  const Loaded plain = Load(Plain());
  std::filesystem::create_directory(cache_);
  ASSERT_EQ(mkdir(Folder().c_str(), 0700), 0);
  ASSERT_EQ(chmod(Folder().c_str(), 0755), 0);
  EXPECT_EQ(LoadOwn().bits, plain.bits);
  EXPECT_THAT(Files(), testing::IsEmpty());
  std::filesystem::rename(Folder(), dir_ / "elsewhere");
  ASSERT_EQ(chmod((dir_ / "elsewhere").c_str(), 0700), 0);
  std::filesystem::create_directory_symlink(dir_ / "elsewhere", Folder());
  EXPECT_EQ(LoadOwn().bits, plain.bits);
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / "elsewhere"));
  const auto folder = PackedFolder::Open(dir_ / "nowhere");
  EXPECT_TRUE(absl::IsUnavailable(folder.status())) << folder.status();
}

// Copies differ in the times of their files, and only in those.
TEST_F(SharedWeightsTest, CopiesOfAModelDoNotReplaceEachOther) {
  MakeModel({.dtype = "float32"});
  LoadMapped();
  const FileState written = StateOf(File());
  const std::string file = File();
  const std::string first = std::exchange(model_, dir_ / "copy");
  std::filesystem::copy(first, model_, std::filesystem::copy_options::recursive);
  LoadMapped();
  EXPECT_EQ(Files().size(), 2U);
  EXPECT_EQ(StateOf(file), written);
  std::filesystem::create_directory_symlink(first, dir_ / "link");
  model_ = dir_ / "link";
  LoadMapped();
  EXPECT_EQ(Files().size(), 2U) << "a link to a model is that model";
}

// As pods that each download the model to one path: they differ in the times of their files.
TEST_F(SharedWeightsTest, CopiesAtOnePathShareAFile) {
  MakeModel({.dtype = "float32"});
  const Loaded first = LoadMapped();
  const std::string file = File();
  const FileState written = StateOf(file);
  const std::string weights = model_ + "/model.safetensors";
  const auto time = std::filesystem::last_write_time(weights);
  const auto load_copy = [&](int number) {
    std::filesystem::last_write_time(weights, time + std::chrono::seconds(number));
    const LogText log;
    EXPECT_EQ(LoadMapped().bits, first.bits);
    EXPECT_EQ(StateOf(file), written);
    return log.str().find("comparing it with this copy") != std::string::npos;
  };
  EXPECT_TRUE(load_copy(1)) << "nothing says that it is the same";
  EXPECT_TRUE(load_copy(2));
  for (const int known : {0, 1, 2}) EXPECT_FALSE(load_copy(known)) << known;
  std::filesystem::remove(file + ".checked");
  EXPECT_TRUE(load_copy(1)) << "what it was made of stood in the note";
  EXPECT_FALSE(load_copy(1));
}

TEST_F(SharedWeightsTest, ANoteKeepsTheCopiesThatCameLast) {
  MakeModel({.dtype = "float32"});
  LoadMapped();
  const auto folder = PackedFolder::Open(cache_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  std::string identity = ReadFile(File());
  identity = identity.substr(identity.find("\"identity\":\"") + 12);
  const auto file = PackedFile::Open(*folder, std::filesystem::path(File()).filename(),
                                     identity.substr(0, identity.find('"')));
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::string> copies;
  for (int i = 0; i < 100; ++i) copies.push_back(std::to_string(i) + std::string(30, 'c'));
  (*file)->NoteChecked(*folder, copies);
  copies.erase(copies.begin(), copies.end() - 64);
  EXPECT_EQ((*file)->CheckedFor(*folder), copies);
  (*file)->NoteChecked(*folder, {});
  EXPECT_EQ((*file)->CheckedFor(*folder), std::vector<std::string>());
}

TEST_F(SharedWeightsTest, ACheckpointThatCannotBePackedIsTheLoadsError) {
  MakeModel({.dtype = "float32"});
  ModelOptions options = Cached();
  options.tensor_parallel_size = 3;
  EXPECT_FALSE(TryLoad(options).ok());
}

TEST(PackedKeyTest, NamesLayoutAndNode) {
  const LoadCacheKey key = {.fingerprint = "f", .checkpoint = "c", .rank = 1, .ranks = 2};
  const PackedKey plain = PackedKey::Of(key, "avx2, panels", std::nullopt);
  EXPECT_THAT(plain.name,
              testing::AllOf(HasSubstr("f-float32-tp2-rank1-"), testing::EndsWith(".v1.packed")));
  EXPECT_THAT(plain.identity,
              testing::AllOf(HasSubstr("avx2, panels"),
                             HasSubstr(", reading " + std::to_string(load_cache::kReading) + ",")));
  LoadCacheKey copied = key;
  copied.checkpoint = "d";
  const PackedKey copy = PackedKey::Of(copied, "avx2, panels", std::nullopt);
  EXPECT_EQ(copy.name, plain.name);
  EXPECT_EQ(copy.identity, plain.identity);
  EXPECT_NE(copy.copy, plain.copy);
  const PackedKey other = PackedKey::Of(key, "avx2, bands", std::nullopt);
  EXPECT_NE(other.name, plain.name);
  EXPECT_NE(other.identity, plain.identity);
  const PackedKey first = PackedKey::Of(key, "avx2, panels", 0);
  const PackedKey second = PackedKey::Of(key, "avx2, panels", 1);
  EXPECT_THAT(first.name, HasSubstr("-node0-"));
  EXPECT_NE(first.name, second.name);
  EXPECT_NE(first.identity, second.identity);
}

}  // namespace
}  // namespace baton::test
