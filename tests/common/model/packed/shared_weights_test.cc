// Weights mapped from a file that workers share compute what weights of a worker's own compute, to
// the bit, whatever happened to the file.
#include "common/model/packed/shared_weights.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/status.h"
#include "common/model/packed/packed_file.h"
#include "common/model/packed/packed_folder.h"
#include "common/model/tensor_specs.h"
#include "tests/common/model/load_cache_fixture.h"

namespace baton::test {
namespace {

using kernels::DType;
using testing::HasSubstr;

struct FileState {
  ino_t inode = 0;
  int64_t bytes = 0;
  int64_t written_ns = 0;
  mode_t mode = 0;
  bool operator==(const FileState&) const = default;
};

FileState StateOf(const std::string& path) {
  struct stat info = {};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return {.inode = info.st_ino,
          .bytes = info.st_size,
          .written_ns = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec,
          .mode = info.st_mode};
}

class SharedWeightsTest : public LoadCacheFixture<kernels::Device::kCpu> {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(cache_);
    const auto folder = PackedFolder::Open(cache_);
    ASSERT_TRUE(folder.ok()) << folder.status();
    const absl::Status fit = folder->CheckFileSystem();
    ASSERT_TRUE(fit.ok()) << "set TMPDIR to a folder on a disk: " << fit;
    std::filesystem::remove_all(cache_);
  }
  // Loads by way of the cache: the weights are mapped, and right.
  Loaded LoadMapped() {
    Loaded loaded = Load(Cached());
    EXPECT_GE(loaded.mapped_bytes, loaded.weight_bytes);
    return loaded;
  }
  // Loads where there can be no cache: the weights are the worker's own.
  Loaded LoadOwn() {
    Loaded loaded = Load(Cached());
    EXPECT_EQ(loaded.mapped_bytes, 0U);
    return loaded;
  }
  std::string Folder() const { return cache_ + "/packed-" + std::to_string(geteuid()); }
  // The rank's weights with this much patience, of which only the size is told.
  absl::StatusOr<size_t> MappedBytes(base::Duration patience) {
    BATON_RETURN_IF_ERROR(MakeCacheDir(cache_));
    BATON_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(model_));
    BATON_ASSIGN_OR_RETURN(const LocalShape shape, LocalShape::Of(config, 0, 1));
    BATON_ASSIGN_OR_RETURN(const auto files, CheckpointFiles::Open(model_));
    BATON_ASSIGN_OR_RETURN(const auto backend,
                           kernels::MakeBackend({.compute_dtype = DType::kBF16, .threads = 1}));
    LoadCachePlace place = {.dir = cache_, .patience = patience};
    BATON_ASSIGN_OR_RETURN(place.key, LoadCacheKey::Of(*files, "f", DType::kBF16, 0, 1));
    BATON_ASSIGN_OR_RETURN(const ModelWeights weights,
                           LoadWeights(config, shape, *files, *backend, nullptr, &place));
    return weights.mapped_bytes();
  }
};

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
  for (int64_t at = 2; at < 4000; at += 4) Damage(file, at + 1);
  const auto folder = PackedFolder::Open(cache_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  const std::string name = std::filesystem::path(file).filename();
  const auto opened = PackedFile::Open(*folder, name, identity);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_FALSE((*opened)->IsMarked(*folder));
  EXPECT_TRUE(absl::IsDataLoss((*opened)->CheckSums()));
  (*opened)->Mark(*folder);
  EXPECT_TRUE((*opened)->IsMarked(*folder));
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

// Writes beyond a limit fail as on a full disk.
TEST_F(SharedWeightsTest, AFullDiskCostsTheCacheOnly) {
  MakeModel({.hidden = 256, .ffn = 512, .dtype = "float32"});
  const Loaded plain = Load(Plain());
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  struct sigaction before = {};
  ASSERT_EQ(sigaction(SIGXFSZ, &ignore, &before), 0);
  rlimit old_limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  rlimit limit = old_limit;
  limit.rlim_cur = 512 << 10;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const Loaded loaded = LoadOwn();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  ASSERT_EQ(sigaction(SIGXFSZ, &before, nullptr), 0);
  EXPECT_EQ(loaded.bits, plain.bits);
  EXPECT_THAT(Files(), testing::IsEmpty());
}

TEST_F(SharedWeightsTest, WhatAKilledLoadLeftIsReplaced) {
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

TEST_F(SharedWeightsTest, AFileThatCannotBeMadeCostsTheCacheOnly) {
  MakeModel({.dtype = "float32"});
  const Loaded first = LoadMapped();
  const std::string file = File();
  std::filesystem::remove(file);
  std::filesystem::create_directory(file + ".tmp");
  EXPECT_EQ(LoadOwn().bits, first.bits);
  EXPECT_THAT(Files(), testing::IsEmpty());
}

TEST_F(SharedWeightsTest, LoadsSideBySideShareOneFile) {
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
TEST_F(SharedWeightsTest, AWaitEndsWithWeightsOfItsOwn) {
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

TEST_F(SharedWeightsTest, AWaitTakesWhatTheOtherWrote) {
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
TEST_F(SharedWeightsTest, AWaitForWhatFailedEndsWithWeightsOfItsOwn) {
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

TEST_F(SharedWeightsTest, ADiskThatIsTooSlowCostsTheCacheOnly) {
  MakeModel({.dtype = "float32"});
  const auto mapped = MappedBytes(std::chrono::nanoseconds(1));
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(*mapped, 0U);
  EXPECT_THAT(Files(), testing::IsEmpty());
}

// More layers than any disk holds, of which the checkpoint has two: nothing looks for the others.
TEST_F(SharedWeightsTest, ADiskWithoutRoomIsKnownBeforeAnythingIsPacked) {
  MakeModel({.dtype = "float32"});
  ASSERT_TRUE(MakeCacheDir(cache_).ok());
  auto config = LoadModelConfig(model_);
  ASSERT_TRUE(config.ok()) << config.status();
  const auto shape = LocalShape::Of(*config, 0, 1);
  const auto files = CheckpointFiles::Open(model_);
  const auto backend = kernels::MakeBackend({.compute_dtype = DType::kBF16, .threads = 1});
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
  EXPECT_THAT(plain.identity, HasSubstr("avx2, panels"));
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
