#include "common/model/kv_arena.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/model/host_limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend_factory.h"
#include "tests/common/model/model_harness.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using testing::HasSubstr;

constexpr kernels::KvLayout kLayout = {
    .dtype = kernels::DType::kBF16, .block_size = 16, .layers = 2, .kv_heads = 2, .head_dim = 64};
constexpr int64_t kBlockBytes = 2 * 2 * 2 * 16 * 64 * 2;

TEST(KvArenaTest, LayoutFollowsTheModelAndTheRank) {
  ModelConfig config;
  config.layers = 32;
  config.heads = 32;
  config.kv_heads = 8;
  config.head_dim = 128;
  config.ffn = 64;
  const auto shape = LocalShape::Of(config, 1, 4);
  ASSERT_TRUE(shape.ok()) << shape.status();
  const auto layout = KvLayoutOf(config, *shape, kernels::DType::kBF16, 16);
  EXPECT_EQ(layout.kv_heads, 2);
  EXPECT_EQ(layout.bytes_per_token(), 131072U / 4);
}

TEST(KvArenaTest, CodesTakeAByteAndInt8AScaleForEachTokenAndHead) {
  kernels::KvLayout layout = kLayout;
  layout.dtype = kernels::DType::kFp8;
  EXPECT_EQ(layout.bytes_per_token(), 2U * 2 * 2 * 64);
  EXPECT_EQ(*BlocksFor({.memory_bytes = 6 * kBlockBytes}, layout), 12);
  layout.dtype = kernels::DType::kInt8;
  EXPECT_EQ(layout.bytes_per_token(), 2U * 2 * 2 * (64 + 4));
  EXPECT_EQ(*BlocksFor({.memory_bytes = 17 * kBlockBytes}, layout), 32);
}

TEST(KvArenaTest, TokensRoundUpToBlocksAndMemoryRoundsDown) {
  EXPECT_EQ(*BlocksFor({.tokens = 1}, kLayout), 1);
  EXPECT_EQ(*BlocksFor({.tokens = 33}, kLayout), 3);
  EXPECT_EQ(*BlocksFor({.memory_bytes = 3 * kBlockBytes - 1}, kLayout), 2);
  EXPECT_EQ(*BlocksFor({}, kLayout), (512 << 20) / kBlockBytes);
}

TEST(KvArenaTest, RefusesABudgetBelowOneBlockAndSaysWhatIsNeeded) {
  const auto memory = BlocksFor({.memory_bytes = kBlockBytes - 1}, kLayout);
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(memory.status().message()),
              testing::AllOf(HasSubstr(absl::StrCat("a KV cache of ", kBlockBytes - 1, " bytes")),
                             HasSubstr(absl::StrCat("tokens takes ", kBlockBytes, " bytes")),
                             HasSubstr("--kv-cache-memory")));
  const auto tokens = BlocksFor({.tokens = 0}, kLayout);
  EXPECT_THAT(std::string(tokens.status().message()), HasSubstr("--kv-cache-tokens"));
}

TEST(KvArenaTest, RefusesBothKindsOfBudgetAtOnce) {
  EXPECT_EQ(BlocksFor({.tokens = 16, .memory_bytes = kBlockBytes}, kLayout).status().code(),
            absl::StatusCode::kInvalidArgument);
}

constexpr int64_t kGiB = int64_t{1} << 30;

// One GiB beside what was allocated is the libraries'.
TEST(KvArenaTest, AProcessGetsWhatIsLeftOfItsShareWhateverOthersHave) {
  for (const int64_t free : {80, 50}) {
    const auto bytes = DeviceKvBytes(
        {.own_bytes = 9 * kGiB, .free_bytes = free * kGiB, .total_bytes = 100 * kGiB}, 0.5);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(*bytes, 40 * kGiB);
  }
}

TEST(KvArenaTest, NoMoreThanIsFree) {
  const auto bytes = DeviceKvBytes(
      {.own_bytes = 9 * kGiB, .free_bytes = 7 * kGiB, .total_bytes = 100 * kGiB}, 0.9);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, 7 * kGiB);
}

TEST(KvArenaTest, ADeviceThatIsFullSaysWhatTakesItAndWhichFlagHelps) {
  const auto bytes = DeviceKvBytes(
      {.own_bytes = 94 * kGiB, .free_bytes = 5 * kGiB, .total_bytes = 100 * kGiB}, 0.9);
  ASSERT_EQ(bytes.status().code(), absl::StatusCode::kResourceExhausted);
  const std::string message(bytes.status().message());
  EXPECT_THAT(message, HasSubstr(std::to_string(95 * kGiB) + " bytes of the GPU"));
  EXPECT_THAT(message, HasSubstr("--gpu-memory-utilization 0.9"));
  EXPECT_THAT(message, HasSubstr("0.95"));
}

TEST(KvArenaTest, HandsOutZeroedBlocks) {
  auto backend = kernels::MakeBackend({.device = kernels::Device::kReference});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto arena = KvArena::Create(**backend, kLayout, 5);
  ASSERT_TRUE(arena.ok()) << arena.status();
  EXPECT_EQ(arena->kv().num_blocks, 5);
  for (int32_t block = 0; block < 5; ++block) {
    const auto bytes = arena->kv().block_span(block);
    EXPECT_EQ(bytes.size(), static_cast<size_t>(kBlockBytes));
    EXPECT_TRUE(
        std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST(KvArenaTest, RefusesMoreThanTheMachineHas) {
  auto backend = kernels::MakeBackend({.device = kernels::Device::kReference});
  ASSERT_TRUE(backend.ok()) << backend.status();
  kernels::KvLayout huge = kLayout;
  huge.layers = 4096;
  huge.kv_heads = 4096;
  const auto arena = KvArena::Create(**backend, huge, 1 << 20);
  EXPECT_EQ(arena.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(arena.status().message()),
      testing::AllOf(HasSubstr("needs"), HasSubstr("available"), HasSubstr("--kv-cache-memory")));
}

class HostLimitsTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  ScratchFolder root_;
  const std::string slash_ = root_ / "";
};

TEST_F(HostLimitsTest, TakesTheMachinesFigureWithoutACgroup) {
  Write("proc/meminfo",
        "MemTotal:       100 kB\nMemFree: 1 kB\nMemAvailable:    40 kB\nCached: 2 kB\n");
  EXPECT_EQ(AvailableMemoryBytes(slash_), 40 * 1024);
}

TEST_F(HostLimitsTest, TakesTheCgroupsFigureWhereThatIsLess) {
  Write("proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 40 kB\n");
  Write("sys/fs/cgroup/memory.max", "20000\n");
  Write("sys/fs/cgroup/memory.current", "15000\n");
  Write("sys/fs/cgroup/memory.stat", "anon 9000\nactive_file 700\ninactive_file 300\n");
  EXPECT_EQ(AvailableMemoryBytes(slash_), 6000);
  Write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(AvailableMemoryBytes(slash_), 40 * 1024);
}

TEST_F(HostLimitsTest, IsUnlimitedWhereNothingCanBeRead) {
  EXPECT_EQ(AvailableMemoryBytes(slash_), INT64_MAX);
}

}  // namespace
}  // namespace baton
