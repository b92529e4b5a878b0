// The block kernels, run thread by thread on the host, and the checksum itself.
#include "kernels/cuda/cta/block_copy.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/kernels/cuda/cta/host_cta.h"
#include "tests/kernels/cuda/memory/block_copy_suite.h"

namespace baton::kernels::cuda {

class EmulatedCopier {
 public:
  std::byte* Reach(size_t bytes) {
    return memory_.emplace_back(new (std::align_val_t(64)) std::byte[bytes]).get();
  }
  std::vector<uint64_t> Copy(const std::vector<BlockPart>& parts) { return Run<true>(parts); }
  std::vector<uint64_t> Sum(const std::vector<BlockPart>& parts) { return Run<false>(parts); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t(64)); }
  };

  template <bool kCopies>
  static std::vector<uint64_t> Run(const std::vector<BlockPart>& parts) {
    HostCta cta(kCopyThreads, HostCta::Order::kShuffled);
    CopyShared shared;
    std::vector<uint64_t> sums(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      for (int64_t begin = 0; begin < parts[i].bytes; begin += kCopyBlockBytes) {
        sums[i] += WorkOnPart<kCopies>(cta, parts[i], begin, shared);
      }
    }
    return sums;
  }
  std::vector<std::unique_ptr<std::byte[], Free>> memory_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Emulated, BlockCopySuite, EmulatedCopier);

namespace {

TEST(BlockChecksumTest, ShowsWhatLinksAndMemoriesDoToBytes) {
  std::mt19937_64 random(11);
  std::vector<uint64_t> words(512);
  for (uint64_t& word : words) word = random();
  const auto sum = [&] { return BlockChecksum(words.data(), words.size() * sizeof(uint64_t)); };
  const uint64_t good = sum();
  EXPECT_EQ(good, sum());
  for (size_t i = 0; i < words.size(); ++i) {
    for (int bit = 0; bit < 64; ++bit) {
      words[i] ^= uint64_t{1} << bit;
      ASSERT_NE(sum(), good) << "word " << i << " bit " << bit;
      words[i] ^= uint64_t{1} << bit;
    }
  }
  // Words that differ in the top bit only, exchanged: a plain weighted sum may not see it.
  words[4] = 1;
  words[260] = words[4] ^ uint64_t { 1 } << 63;
  const uint64_t before = sum();
  std::swap(words[4], words[260]);
  EXPECT_NE(sum(), before);
}

TEST(BlockChecksumTest, TheDefinitionHolds) {
  // Peers of different builds compare these numbers.
  EXPECT_EQ(BlockChecksum(nullptr, 0), 0u);
  const unsigned char bytes[11] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  EXPECT_EQ(ChecksumTerm(0, 0), 0x17fb89ee9dcab42au);
  EXPECT_EQ(BlockChecksum(bytes, 11), 0x648d45cd12ae9453u);
}

}  // namespace
}  // namespace baton::kernels::cuda
