// KV blocks in a GPU as transports see them: as those in host memory, byte for byte.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "common/transport/kv_transport.h"
#include "common/transport/pair/cuda_pair_memory.h"
#include "common/transport/pair/pair_parcel.h"
#include "kernels/block_checksum.h"
#include "kernels/cuda/device/runtime.h"

namespace baton {
namespace {

using kernels::cuda::DeviceMemory;

constexpr int64_t kBufferBytes = kParcelHeaderBytes + (1 << 18);

std::vector<std::byte> Random(size_t bytes) {
  static std::mt19937 random(7);
  std::vector<std::byte> made(bytes);
  for (std::byte& b : made) b = static_cast<std::byte>(random());
  return made;
}

class CudaMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    auto blocks = MakeCudaBlocks(0);
    ASSERT_TRUE(blocks.ok()) << blocks.status();
    blocks_ = *std::move(blocks);
    auto memory = DeviceMemory::Allocate(1 << 20);
    ASSERT_TRUE(memory.ok()) << memory.status();
    device_ = *std::move(memory);
  }
  std::span<std::byte> At(size_t offset, size_t bytes) {
    return {static_cast<std::byte*>(device_->data()) + offset, bytes};
  }
  void Put(std::span<std::byte> to, const std::vector<std::byte>& bytes) {
    const absl::Status status = blocks_->Write({std::span(bytes)}, {to});
    ASSERT_TRUE(status.ok()) << status;
  }
  // Memory of a second GPU; null where there is none.
  static std::unique_ptr<DeviceMemory> OnSecondGpu(size_t bytes) {
    if (*kernels::cuda::DeviceCount() < 2) return nullptr;
    EXPECT_TRUE(kernels::cuda::SelectDevice(1).ok());
    auto memory = DeviceMemory::Allocate(bytes);
    EXPECT_TRUE(memory.ok()) << memory.status();
    EXPECT_TRUE(kernels::cuda::SelectDevice(0).ok());
    return memory.ok() ? *std::move(memory) : nullptr;
  }
  std::vector<std::byte> Get(std::span<const std::byte> from) {
    std::vector<std::byte> all;
    for (size_t at = 0; at < from.size(); at += kMaxPieceBytes) {
      const auto read =
          blocks_->Read({from.subspan(at, std::min(kMaxPieceBytes, from.size() - at))});
      EXPECT_TRUE(read.ok()) << read.status();
      if (!read.ok()) break;
      for (const auto part : read->parts) all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  std::unique_ptr<BlockAccess> blocks_;
  std::unique_ptr<DeviceMemory> device_;
};

TEST_F(CudaMemoryTest, WhatTheHostWritesInPartsItReadsInOthers) {
  const auto bytes = Random(1000);
  const std::span<const std::byte> all(bytes);
  ASSERT_TRUE(
      blocks_
          ->Write({all.first(1), all.subspan(1, 600), all.subspan(601)}, {At(512, 300), At(0, 700)})
          .ok());
  const auto read = blocks_->Read({At(512, 300), At(0, 100), At(100, 600)});
  ASSERT_TRUE(read.ok()) << read.status();
  std::vector<std::byte> found;
  for (const auto part : read->parts) found.insert(found.end(), part.begin(), part.end());
  EXPECT_EQ(found, bytes);
}

TEST_F(CudaMemoryTest, ZeroesTheTokensThatTheHostWouldZero) {
  for (const int32_t used : {0, 3, 16}) {
    const BlockRows slots{.rows = 12, .block_size = 16, .used = used};
    auto expected = Random(12 * 16 * 128);
    Put(At(256, expected.size()), expected);
    ASSERT_TRUE(blocks_->Zero(slots, At(256, expected.size())).ok());
    ZeroUnused(slots, expected);
    EXPECT_EQ(Get(At(256, expected.size())), expected) << used;
  }
}

// As on a prefill worker of two ranks: on one GPU, and on two where there are two.
TEST_F(CudaMemoryTest, ZeroesTheTokensOfEveryRanksBlock) {
  const auto second_gpu = OnSecondGpu(1 << 16);
  const BlockRows slots{.rows = 12, .block_size = 16, .used = 5};
  auto expected = Random(12 * 16 * 128);
  std::vector<std::span<std::byte>> ranks = {At(256, expected.size())};
  if (second_gpu != nullptr) {
    ranks.emplace_back(static_cast<std::byte*>(second_gpu->data()), expected.size());
  }
  for (const auto block : ranks) Put(block, expected);
  ZeroUnused(slots, expected);
  for (int time = 0; time < 2; ++time) {
    for (const auto block : ranks) {
      const absl::Status zeroed = blocks_->Zero(slots, block);
      ASSERT_TRUE(zeroed.ok()) << zeroed;
      EXPECT_EQ(Get(block), expected);
    }
  }
}

TEST_F(CudaMemoryTest, AParcelIsGatheredAndScatteredAsInHostMemory) {
  auto made = MakeCudaPairMemory(0, 2, kBufferBytes, /*blocks_elsewhere=*/false);
  ASSERT_TRUE(made.ok()) << made.status();
  PairMemory& memory = **made;
  ASSERT_TRUE(memory.BindThread().ok());
  const auto bytes = Random(70'000);
  Put(At(0, bytes.size()), bytes);
  // A block in one place, and one in three as of several ranks.
  const std::vector<SourcePart> sources = {
      {0, 0, {At(0, 30'000)}}, {1, 64, {At(30'000, 16), At(40'000, 4096), At(30'016, 9'000)}}};
  const std::vector<ParcelPart> parts = {{0, 0, 30'000}, {1, 64, 16 + 4096 + 9000}};
  const auto offsets = PartOffsets(parts);
  const auto sums = memory.Gather(1, sources, offsets, /*sums=*/true);
  ASSERT_TRUE(sums.ok()) << sums.status();
  std::vector<std::byte> second(bytes.begin() + 30'000, bytes.begin() + 30'016);
  second.insert(second.end(), bytes.begin() + 40'000, bytes.begin() + 44'096);
  second.insert(second.end(), bytes.begin() + 30'016, bytes.begin() + 39'016);
  EXPECT_EQ(*sums, (std::vector<uint64_t>{kernels::BlockChecksum(bytes.data(), 30'000),
                                          kernels::BlockChecksum(second.data(), second.size())}));
  const std::string header = EncodeParcelHeader({.epoch = 5});
  ASSERT_TRUE(memory.WriteHeader(1, header).ok());
  EXPECT_EQ(*memory.ReadHeader(1), header);

  const size_t to = 200'000;
  const std::vector<ScatterPart> targets = {{offsets[0], {At(to, 30'000)}},
                                            {offsets[1], {At(to + 40'000, second.size())}}};
  const auto found = memory.Scatter(1, targets, /*sums=*/true);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, *sums);
  EXPECT_EQ(Get(At(to + 40'000, second.size())), second);
  EXPECT_EQ(Get(At(to, 30'000)), std::vector<std::byte>(bytes.begin(), bytes.begin() + 30'000));
  EXPECT_TRUE(memory.Gather(0, sources, offsets, /*sums=*/false)->empty());
}

// As on a decode worker of two ranks: on one GPU, and on two where there are two.
TEST_F(CudaMemoryTest, AParcelIsScatteredToTheRanksOfItsBlocks) {
  const auto second_gpu = OnSecondGpu(1 << 16);
  const auto second_rank = [&](size_t offset, size_t bytes) {
    if (second_gpu == nullptr) return At(500'000 + offset, bytes);
    return std::span(static_cast<std::byte*>(second_gpu->data()) + offset, bytes);
  };
  for (const bool elsewhere : {false, true}) {
    if (second_gpu != nullptr && !elsewhere) continue;
    auto made = MakeCudaPairMemory(0, 2, kBufferBytes, elsewhere);
    ASSERT_TRUE(made.ok()) << made.status();
    PairMemory& memory = **made;
    ASSERT_TRUE(memory.BindThread().ok());
    const auto bytes = Random(30'000);
    const std::span<std::byte> staged(memory.buffer(1) + kParcelHeaderBytes, bytes.size());
    Put(staged, bytes);
    // On both ranks, with a border inside of a word, on the first and on the second only.
    const std::vector<ScatterPart> parts = {
        {kParcelHeaderBytes, {At(0, 8'003), second_rank(0, 7'997)}},
        {kParcelHeaderBytes + 16'000, {At(20'000, 4'000)}},
        {kParcelHeaderBytes + 20'000, {second_rank(20'000, 10'000)}}};
    const auto sums = memory.Scatter(1, parts, /*sums=*/true);
    ASSERT_TRUE(sums.ok()) << sums.status();
    EXPECT_EQ(*sums,
              (std::vector<uint64_t>{kernels::BlockChecksum(bytes.data(), 16'000),
                                     kernels::BlockChecksum(bytes.data() + 16'000, 4'000),
                                     kernels::BlockChecksum(bytes.data() + 20'000, 10'000)}));
    std::vector<std::byte> found;
    for (const ScatterPart& part : parts) {
      for (const auto run : part.to) {
        const auto read = Get(run);
        found.insert(found.end(), read.begin(), read.end());
      }
    }
    EXPECT_EQ(found, bytes) << elsewhere;
    // Alone, so that every part is one run.
    const auto alone = memory.Scatter(1, std::span(parts).last(1), /*sums=*/true);
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_EQ((*alone)[0], kernels::BlockChecksum(bytes.data() + 20'000, 10'000));
  }
}

TEST_F(CudaMemoryTest, AVoidParcelHasNobodysBytes) {
  auto made = MakeCudaPairMemory(0, 2, kBufferBytes, /*blocks_elsewhere=*/false);
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_TRUE((*made)->BindThread().ok());
  const std::span<std::byte> buffer((*made)->buffer(0), 1000);
  Put(buffer, Random(1000));
  ASSERT_TRUE((*made)->Clear(0, 1000).ok());
  EXPECT_EQ(Get(buffer), std::vector<std::byte>(1000));
}

}  // namespace
}  // namespace baton
