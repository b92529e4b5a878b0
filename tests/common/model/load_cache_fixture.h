#pragma once

#include <signal.h>
#include <sys/resource.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/model/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/model/model_harness.h"
#include "tests/fakes/scratch_folder.h"

namespace baton::test {

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Changes one byte.
inline void Damage(const std::string& path, int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const char byte = static_cast<char>(file.get());
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 0x10));
  ASSERT_TRUE(file.good()) << path << " at " << at;
}

struct Loaded {
  std::vector<uint32_t> bits;  // of the log-probability of every id at every step
  int64_t read = 0;            // bytes, as progress counted them last
  size_t weight_bytes = 0;
  size_t mapped_bytes = 0;
};

// A model and a cache. `kDevice` decides what kind of cache that is: the oracle's holds rows, the
// CPU's packed weights.
template <kernels::Device kDevice>
class LoadCacheFixture : public testing::Test {
 protected:
  void MakeModel(RandomModelSpec spec) {
    model_ = dir_ / ("model" + std::to_string(models_++));
    const absl::Status written = WriteRandomModel(spec, model_);
    ASSERT_TRUE(written.ok()) << written;
  }

  absl::StatusOr<Loaded> TryLoad(ModelOptions options) {
    options.threads = options.tensor_parallel_size;
    options.kv.tokens = 1024;
    options.limits = {.max_tokens = 64, .max_samples = 8};
    Loaded loaded;
    auto model = LoadModel(model_, options, [&](int64_t, int64_t total) { loaded.read = total; });
    if (!model.ok()) return model.status();
    loaded.weight_bytes = (*model)->weight_bytes;
    loaded.mapped_bytes = (*model)->mapped_bytes;
    TestSequence sequence{.prompt = {1, 200, 3, 77, 5}};
    sequence.sampling.num_top_logprobs = (*model)->config.vocab;
    RunnerDriver driver(**model);
    driver.Generate({&sequence}, 6, 64);
    for (const SampledToken& sample : sequence.samples) {
      for (const auto& top : sample.top_logprobs) {
        loaded.bits.push_back(static_cast<uint32_t>(top.token));
        loaded.bits.push_back(std::bit_cast<uint32_t>(top.logprob));
      }
    }
    return loaded;
  }
  Loaded Load(const ModelOptions& options) {
    auto loaded = TryLoad(options);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? *std::move(loaded) : Loaded{};
  }
  // With a cache, converted to bf16 from fp32: it has half the bytes of the checkpoint.
  ModelOptions Cached() const {
    return {.dtype = kernels::DType::kBF16, .device = kDevice, .load_cache = cache_};
  }
  // Writes beyond a limit fail as on a full disk.
  Loaded LoadOnFullDisk() {
    struct sigaction ignore = {}, before = {};
    ignore.sa_handler = SIG_IGN;
    EXPECT_EQ(sigaction(SIGXFSZ, &ignore, &before), 0);
    rlimit old_limit = {};
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
    rlimit limit = old_limit;
    limit.rlim_cur = 512 << 10;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    Loaded loaded = Load(Cached());
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
    EXPECT_EQ(sigaction(SIGXFSZ, &before, nullptr), 0);
    return loaded;
  }
  ModelOptions Plain() const { return {.dtype = kernels::DType::kBF16, .device = kDevice}; }
  // Of the cache, without what stands beside a file: its lock and the note that it was checked.
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(cache_)) {
      const std::string name = entry.path().string();
      const bool beside = name.ends_with(".lock") || name.ends_with(".checked");
      if (!beside && (kDevice != kernels::Device::kCpu || !entry.is_directory())) {
        names.push_back(name);
      }
    }
    return names;
  }
  // The one file there is.
  std::string File() const {
    const std::vector<std::string> files = Files();
    EXPECT_EQ(files.size(), 1U) << testing::PrintToString(files);
    return files.empty() ? "" : files[0];
  }

  ScratchFolder dir_;
  std::string model_;
  const std::string cache_ = dir_ / "cache";
  int models_ = 0;
};

}  // namespace baton::test
