#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/block_checksum.h"
#include "kernels/cuda/cta/block_data.h"

// Every way to run the block kernels moves all bytes and finds their checksums. A Copier
// has Reach(bytes), memory that is reachable from host and device, then Copy and Sum as the
// launches of kernels/cuda/memory/blocks.h over parts on the host.
namespace baton::kernels::cuda {

template <typename Copier>
class BlockCopySuite : public testing::Test {
 protected:
  // Sizes in bytes, at addresses that are `misalign` off.
  void ExpectWhole(const std::vector<int64_t>& sizes, size_t misalign) {
    constexpr size_t kRoom = 1 << 18;
    std::byte* const from = copier_.Reach(kRoom * sizes.size());
    std::byte* const to = copier_.Reach(kRoom * sizes.size());
    std::mt19937 random(static_cast<uint32_t>(sizes.size()));
    std::generate(from, from + kRoom * sizes.size(), [&] { return std::byte(random()); });
    std::fill(to, to + kRoom * sizes.size(), std::byte{0x5a});
    std::vector<BlockPart> parts;
    for (size_t i = 0; i < sizes.size(); ++i) {
      parts.push_back(
          {.from = from + i * kRoom + 16 + misalign, .to = to + i * kRoom + 32, .bytes = sizes[i]});
    }
    const std::vector<uint64_t> sums = copier_.Copy(parts);
    const std::vector<uint64_t> after = copier_.Sum(parts);
    for (size_t i = 0; i < parts.size(); ++i) {
      SCOPED_TRACE(testing::Message()
                   << "part " << i << " of " << sizes[i] << " bytes, misaligned by " << misalign);
      const auto bytes = static_cast<size_t>(sizes[i]);
      const auto* expected = static_cast<const std::byte*>(parts[i].from);
      const uint64_t sum = BlockChecksum(expected, bytes);
      const auto* written = static_cast<const std::byte*>(parts[i].to);
      ASSERT_TRUE(std::equal(expected, expected + bytes, written));
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
    this->ExpectWhole(sizes, misalign);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TYPED_TEST_P(BlockCopySuite, NoPartsAreNoWork) {
  EXPECT_TRUE(this->copier_.Copy({}).empty());
  EXPECT_TRUE(this->copier_.Sum({}).empty());
}

REGISTER_TYPED_TEST_SUITE_P(BlockCopySuite, PartsOfAnySizeAndAlignmentArriveWhole,
                            NoPartsAreNoWork);

}  // namespace baton::kernels::cuda
