#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "common/base/status.h"
#include "common/model/packed/packed_folder.h"
#include "common/model/packed/shared_weights.h"
#include "tests/common/model/load_cache_fixture.h"

namespace baton::test {

struct FileState {
  ino_t inode = 0;
  int64_t bytes = 0;
  int64_t written_ns = 0;
  mode_t mode = 0;
  bool operator==(const FileState&) const = default;
};

inline FileState StateOf(const std::string& path) {
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
    BATON_ASSIGN_OR_RETURN(
        const auto backend,
        kernels::MakeBackend({.compute_dtype = kernels::DType::kBF16, .threads = 1}));
    LoadCachePlace place = {.dir = cache_, .patience = patience};
    BATON_ASSIGN_OR_RETURN(place.key, LoadCacheKey::Of(*files, "f", kernels::DType::kBF16, 0, 1));
    BATON_ASSIGN_OR_RETURN(const ModelWeights weights,
                           LoadWeights(config, shape, *files, *backend, nullptr, &place));
    return weights.mapped_bytes();
  }
};

}  // namespace baton::test
