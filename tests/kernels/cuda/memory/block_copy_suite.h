#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/block_checksum.h"
#include "kernels/cuda/cta/block_data.h"
#include "kernels/reference/block_copy.h"

// Every way to run the block kernels moves the bytes of the reference and finds its sums. A Copier
// has Reach(bytes), memory that is reachable from host and device, then Copy and Sum as the
// launches of kernels/cuda/memory/blocks.h over parts on the host.
namespace baton::kernels::cuda {

template <typename Copier>
class BlockCopySuite : public testing::Test {
 protected:
  // Sizes in bytes, at addresses that are `misalign` off.
  void ExpectAsReference(const std::vector<int64_t>& sizes, SlotShape shape, int32_t used_slots,
                         size_t misalign) {
    constexpr size_t kRoom = 1 << 18;
    std::byte* const from = copier_.Reach(kRoom * sizes.size());
    std::byte* const to = copier_.Reach(kRoom * sizes.size());
    std::mt19937 random(static_cast<uint32_t>(sizes.size()) + shape.slot_bytes);
    std::generate(from, from + kRoom * sizes.size(), [&] { return std::byte(random()); });
    std::fill(to, to + kRoom * sizes.size(), std::byte{0x5a});
    std::vector<BlockPart> parts;
    for (size_t i = 0; i < sizes.size(); ++i) {
      parts.push_back({.from = from + i * kRoom + 16 + misalign,
                       .to = to + i * kRoom + 32,
                       .bytes = sizes[i],
                       .offset = shape.slot_bytes > 0 ? int64_t(i) * shape.slot_bytes : 0,
                       .used_slots = i % 2 == 0 ? used_slots : -1});
    }
    const std::vector<uint64_t> sums = copier_.Copy(parts, shape);
    const std::vector<uint64_t> after = copier_.Sum(parts);
    for (size_t i = 0; i < parts.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "part " << i << " of " << sizes[i] << " bytes, slots of "
                                      << shape.slot_bytes << ", misaligned by " << misalign);
      const auto bytes = static_cast<size_t>(sizes[i]);
      std::vector<std::byte> expected(bytes);
      const uint64_t sum = reference::CopyBlockPart(
          {static_cast<const std::byte*>(parts[i].from), bytes}, expected, parts[i].offset,
          parts[i].used_slots, shape.slot_bytes, shape.block_size);
      const auto* written = static_cast<const std::byte*>(parts[i].to);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), written));
      ASSERT_EQ(written[-1], std::byte{0x5a}) << "nothing before the part";
      ASSERT_EQ(written[bytes], std::byte{0x5a}) << "nothing behind the part";
      ASSERT_EQ(sums[i], sum);
      ASSERT_EQ(after[i], sum);
    }
  }

  Copier copier_;
};
TYPED_TEST_SUITE_P(BlockCopySuite);

TYPED_TEST_P(BlockCopySuite, PartsOfAnySizeAndAlignmentArriveWhole) {
  const std::vector<int64_t> sizes = {0, 1, 7, 8, 15, 16, 17, 4096, 65536, 65537, 200000};
  for (const size_t misalign : {0, 1, 8}) {
    this->ExpectAsReference(sizes, {}, -1, misalign);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TYPED_TEST_P(BlockCopySuite, UnusedSlotsBecomeZeros) {
  for (const int32_t slot_bytes : {2, 12, 16, 128, 256}) {
    for (const int32_t used : {0, 1, 15, 16}) {
      const SlotShape shape{.slot_bytes = slot_bytes, .block_size = 16};
      this->ExpectAsReference({64, 1000, int64_t{16} * 8 * slot_bytes, 99999}, shape, used, 0);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TYPED_TEST_P(BlockCopySuite, NoPartsAreNoWork) {
  EXPECT_TRUE(this->copier_.Copy({}, {}).empty());
  EXPECT_TRUE(this->copier_.Sum({}).empty());
}

REGISTER_TYPED_TEST_SUITE_P(BlockCopySuite, PartsOfAnySizeAndAlignmentArriveWhole,
                            UnusedSlotsBecomeZeros, NoPartsAreNoWork);

}  // namespace baton::kernels::cuda
