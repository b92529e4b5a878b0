// Staging buffers in host memory: what another process maps of them, and what it refuses.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "common/transport/pair/pair_memory.h"
#include "kernels/block_checksum.h"

namespace baton {
namespace {

constexpr int kRingBuffers = 3;
constexpr int64_t kRingBufferBytes = 4096;
constexpr int64_t kRingBytes = kRingBuffers * kRingBufferBytes;

std::unique_ptr<PairMemory> MakeMemory() {
  return *MakeHostPairMemory(kRingBuffers, kRingBufferBytes);
}

TEST(HostPairMemoryTest, WhatIsWrittenToABufferIsReadThroughTheMapping) {
  const auto own = MakeMemory(), other = MakeMemory();
  const auto handle = own->Export();
  ASSERT_TRUE(handle.ok()) << handle.status();
  const auto ring = other->Map(*handle, kRingBytes);
  ASSERT_TRUE(ring.ok()) << ring.status();
  EXPECT_EQ((*ring)->bytes(), kRingBytes);
  std::memcpy(own->buffer(2) + 100, "after it was mapped", 20);
  ASSERT_TRUE((*ring)->CopyOut(2 * kRingBufferBytes + 100, 20, other->buffer(1)).ok());
  EXPECT_STREQ(reinterpret_cast<const char*>(other->buffer(1)), "after it was mapped");
}

TEST(HostPairMemoryTest, AMappingOutlivesTheBuffersOfAProcessThatIsGone) {
  auto own = MakeMemory();
  const auto other = MakeMemory();
  std::memcpy(own->buffer(0), "kept", 5);
  const auto ring = other->Map(*own->Export(), kRingBytes);
  ASSERT_TRUE(ring.ok()) << ring.status();
  own.reset();
  ASSERT_TRUE((*ring)->CopyOut(0, 5, other->buffer(0)).ok());
  EXPECT_STREQ(reinterpret_cast<const char*>(other->buffer(0)), "kept");
}

TEST(HostPairMemoryTest, AStaleHandleIsRefused) {
  auto own = MakeMemory();
  const auto other = MakeMemory();
  const std::string handle = *own->Export();
  own.reset();
  const auto gone = other->Map(handle, kRingBytes);
  EXPECT_EQ(gone.status().code(), absl::StatusCode::kUnavailable) << gone.status();
  // The same number may name other buffers by now; those are not what the handle meant.
  const auto next = MakeMemory();
  EXPECT_FALSE(other->Map(handle, kRingBytes).ok());
}

TEST(HostPairMemoryTest, AHandleOfAnotherKindOrOfFewerBytesIsRefused) {
  const auto own = MakeMemory(), other = MakeMemory();
  const auto cuda = other->Map(std::string(64, '\1'), kRingBytes);
  EXPECT_EQ(cuda.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(cuda.status().message().find("host memory"), std::string::npos) << cuda.status();
  const std::string handle = *own->Export();
  for (const int64_t bytes : {kRingBytes + 1, int64_t{0}, int64_t{-1}}) {
    EXPECT_EQ(other->Map(handle, bytes).status().code(), absl::StatusCode::kDataLoss) << bytes;
  }
}

std::string Random(size_t bytes) {
  static std::minstd_rand random(5);
  std::string made(bytes, '\0');
  for (char& c : made) c = static_cast<char>(random());
  return made;
}

TEST(HostPairMemoryTest, PartsAreScatteredToTheRanksOfTheirBlocksAndSummedThere) {
  const auto memory = MakeMemory();
  // One part is of one rank, the other of three whose sizes are no multiples of a word.
  const std::string whole = Random(1000), divided = Random(13 + 1 + 700);
  std::memcpy(memory->buffer(1) + 16, whole.data(), whole.size());
  std::memcpy(memory->buffer(1) + 1024, divided.data(), divided.size());
  std::string one(1000, '.'), first(13, '.'), second(1, '.'), third(702, '.');
  const auto bytes = [](std::string& of) { return std::as_writable_bytes(std::span(of)); };
  const std::vector<ScatterPart> parts = {
      {16, {bytes(one)}}, {1024, {bytes(first), bytes(second), bytes(third).subspan(1, 700)}}};
  const auto sums = memory->Scatter(1, parts, /*sums=*/true);
  ASSERT_TRUE(sums.ok()) << sums.status();
  EXPECT_EQ(one, whole);
  EXPECT_EQ(first + second + third, divided.substr(0, 14) + "." + divided.substr(14) + ".");
  EXPECT_EQ(*sums, (std::vector<uint64_t>{kernels::BlockChecksum(whole.data(), whole.size()),
                                          kernels::BlockChecksum(divided.data(), divided.size())}));
  EXPECT_TRUE(memory->Scatter(1, parts, /*sums=*/false)->empty());
}

TEST(HostPairMemoryTest, ASumIsOfTheBlockAndNotOfWhatWasStaged) {
  const auto memory = MakeMemory();
  const std::string staged = Random(128);
  std::memcpy(memory->buffer(0), staged.data(), staged.size());
  // Memory that loses what was written: the second rank's place is the first one's.
  std::string place(64, '.');
  const auto bytes = std::as_writable_bytes(std::span(place));
  const std::vector<ScatterPart> parts = {{0, {bytes, bytes}}};
  const auto sums = memory->Scatter(0, parts, /*sums=*/true);
  ASSERT_TRUE(sums.ok()) << sums.status();
  const std::string stands = place + place;
  EXPECT_EQ((*sums)[0], kernels::BlockChecksum(stands.data(), stands.size()));
  EXPECT_NE((*sums)[0], kernels::BlockChecksum(staged.data(), staged.size()));
}

}  // namespace
}  // namespace baton
