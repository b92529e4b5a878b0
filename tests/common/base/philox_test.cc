#include "common/base/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace baton::base {
namespace {

using Words = std::array<uint32_t, 4>;

// kat_vectors of Random123: philox4x32, 10 rounds.
TEST(Philox, AnswersTheKnownVectors) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffffffffffff),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Coin, IsWords0And1OfItsCounterAs53Bits) {
  const uint64_t seed = 0x0123456789abcdef;
  const Words words = Philox4x32({7, 1, 0, 0}, seed);
  const uint64_t bits = (uint64_t{words[0]} << 32 | words[1]) >> 11;
  EXPECT_EQ(Coin(seed, 7, 1), std::ldexp(static_cast<double>(bits), -53));
  // The value follows from the first known vector.
  EXPECT_EQ(Coin(0, 0, 0), std::ldexp(static_cast<double>(0x6627e8d5e169c58d >> 11), -53));
}

TEST(Coin, LiesInTheUnitIntervalAndDependsOnEachArgument) {
  std::set<double> seen;
  double sum = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (uint32_t position = 0; position < 100; ++position) {
      for (uint32_t draw = 0; draw < 2; ++draw) {
        const double coin = Coin(seed, position, draw);
        EXPECT_GE(coin, 0.0);
        EXPECT_LT(coin, 1.0);
        seen.insert(coin);
        sum += coin;
      }
    }
  }
  EXPECT_EQ(seen.size(), 2000u);
  EXPECT_NEAR(sum / 2000, 0.5, 0.03);  // 4.6 standard deviations
}

TEST(Coin, UsesTheWholeSeed) { EXPECT_NE(Coin(1, 0, 0), Coin(uint64_t{1} << 32 | 1, 0, 0)); }

}  // namespace
}  // namespace baton::base
