// Staging buffers in host memory: what another process maps of them, and what it refuses.
#include <gtest/gtest.h>

#include <cstring>

#include "common/transport/pair_memory.h"

namespace baton {
namespace {

constexpr int kSlots = 3;
constexpr int64_t kSlotBytes = 4096;
constexpr int64_t kRingBytes = kSlots * kSlotBytes;

std::unique_ptr<PairMemory> MakeMemory() { return *MakeHostPairMemory(kSlots, kSlotBytes); }

TEST(HostPairMemoryTest, WhatIsWrittenToABufferIsReadThroughTheMapping) {
  const auto own = MakeMemory(), other = MakeMemory();
  const auto handle = own->Export();
  ASSERT_TRUE(handle.ok()) << handle.status();
  const auto ring = other->Map(*handle, kRingBytes);
  ASSERT_TRUE(ring.ok()) << ring.status();
  EXPECT_EQ((*ring)->bytes(), kRingBytes);
  std::memcpy(own->slot(2) + 100, "after it was mapped", 20);
  ASSERT_TRUE((*ring)->CopyOut(2 * kSlotBytes + 100, 20, other->slot(1)).ok());
  EXPECT_STREQ(reinterpret_cast<const char*>(other->slot(1)), "after it was mapped");
}

TEST(HostPairMemoryTest, AMappingOutlivesTheBuffersOfAProcessThatIsGone) {
  auto own = MakeMemory();
  const auto other = MakeMemory();
  std::memcpy(own->slot(0), "kept", 5);
  const auto ring = other->Map(*own->Export(), kRingBytes);
  ASSERT_TRUE(ring.ok()) << ring.status();
  own.reset();
  ASSERT_TRUE((*ring)->CopyOut(0, 5, other->slot(0)).ok());
  EXPECT_STREQ(reinterpret_cast<const char*>(other->slot(0)), "kept");
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

}  // namespace
}  // namespace baton
