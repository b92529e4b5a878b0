#include "common/model/swap_space.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "common/model/kv_arena.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend_factory.h"
#include "tests/common/model/model_harness.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr kernels::KvLayout kSwapLayout = {
    .dtype = kernels::DType::kF32, .block_size = 4, .layers = 2, .kv_heads = 1, .head_dim = 8};
constexpr int64_t kSwapBlockBytes = int64_t{2} * 2 * 4 * 8 * 4;

std::unique_ptr<kernels::Backend> Reference() {
  return kernels::MakeBackend({.device = kernels::Device::kReference}).value();
}

TEST(SwapSpaceTest, MemoryRoundsDownToBlocks) {
  EXPECT_EQ(*SwapBlocksFor(0, kSwapLayout), 0);
  EXPECT_EQ(*SwapBlocksFor(kSwapBlockBytes, kSwapLayout), 1);
  EXPECT_EQ(*SwapBlocksFor(5 * kSwapBlockBytes - 1, kSwapLayout), 4);
}

TEST(SwapSpaceTest, LessThanABlockIsRefused) {
  const auto blocks = SwapBlocksFor(kSwapBlockBytes - 1, kSwapLayout);
  EXPECT_EQ(blocks.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(blocks.status().message()),
              AllOf(HasSubstr("--swap-space " + std::to_string(kSwapBlockBytes - 1) + " holds no"),
                    HasSubstr("takes " + std::to_string(kSwapBlockBytes) + " bytes")));
}

TEST(SwapSpaceTest, WhatTheMachineDoesNotHaveIsRefused) {
  const auto backend = Reference();
  const auto arena = KvArena::CreateOnHost(
      *backend, {.block_size = 1024, .layers = 1 << 10, .kv_heads = 64, .head_dim = 128}, 1 << 20);
  EXPECT_EQ(arena.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(arena.status().message()),
              AllOf(HasSubstr("swap space of 1048576 blocks"), HasSubstr("lower --swap-space")));
}

TEST(SwapSpaceTest, AModelThatDoesNotFitBesideItSaysSo) {
  ScratchFolder folder;
  ASSERT_TRUE(WriteRandomModel({}, folder / "model").ok());
  ModelOptions options;
  options.kv.tokens = 256;
  options.swap_bytes = int64_t{1} << 49;
  const auto model = LoadModel(folder / "model", options, nullptr);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(model.status().message()),
              AllOf(HasSubstr("), the machine has "), HasSubstr(", swap space "),
                    HasSubstr("lower --swap-space, ")));
}

TEST(SwapSpaceTest, MeasuringLeavesTheCacheAsItIs) {
  const auto backend = Reference();
  auto device = KvArena::Create(*backend, kSwapLayout, 6);
  auto host = KvArena::CreateOnHost(*backend, kSwapLayout, 4);
  ASSERT_TRUE(device.ok() && host.ok());
  const kernels::PagedKv& kv = device->kv();
  for (int32_t i = 0; i < 6; ++i) std::memset(kv.block(i), 10 + i, kSwapBlockBytes);
  const auto times = MeasureSwaps(*backend, kv, host->kv(), base::SteadyClock());
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_GT(times->out_s, 0);
  EXPECT_GT(times->in_s, 0);
  EXPECT_LT(times->out_s + times->in_s, 1);
  for (int32_t i = 0; i < 6; ++i) {
    const auto bytes = kv.block_span(i);
    EXPECT_TRUE(std::ranges::all_of(bytes, [&](std::byte b) { return b == std::byte(10 + i); }));
  }
}

}  // namespace
}  // namespace baton
