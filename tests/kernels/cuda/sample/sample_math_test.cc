// The kernels' arithmetic against the definitions that host samplers share, bit by bit.
#include "kernels/cuda/cta/sample_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "common/base/philox.h"
#include "kernels/exp_f32.h"
#include "kernels/sample_weights.h"

namespace baton::kernels::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(SampleMathTest, ExpIsExpF32) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> exponent(-100, 100);
  for (int i = 0; i < 2'000'000; ++i) {
    const float x = i % 4 == 0 ? exponent(random) / 1000 : exponent(random);
    ASSERT_EQ(FloatBits(Exp(x)), std::bit_cast<uint32_t>(ExpF32(x))) << x;
  }
  for (const float x : {0.0f, -0.0f, -87.0f, -87.00001f, 88.0f, 89.0f, -kInfinity, kInfinity}) {
    EXPECT_EQ(FloatBits(Exp(x)), std::bit_cast<uint32_t>(ExpF32(x))) << x;
  }
}

TEST(SampleMathTest, CoinAndMassAreTheSharedOnes) {
  std::mt19937_64 random(6);
  for (int i = 0; i < 10000; ++i) {
    const uint64_t seed = random();
    const auto position = static_cast<uint32_t>(random());
    ASSERT_EQ(CoinOf(seed, position, i % 2), base::Coin(seed, position, i % 2));
    const float weight = static_cast<float>(base::Coin(seed, 1, 0));
    ASSERT_EQ(NucleusMassOf(weight), NucleusMass(weight));
  }
  EXPECT_EQ(NucleusMassOf(1.0f), NucleusMass(1.0f));
}

TEST(SampleMathTest, KeysOrderAsLogits) {
  std::mt19937 random(7);
  const auto any = [&] {
    for (;;) {
      const float x = BitsFloat(random());
      if (!IsNan(x)) return x;
    }
  };
  for (int i = 0; i < 100000; ++i) {
    const float a = any();
    const float b = i % 10 == 0 ? a : any();
    ASSERT_EQ(a < b, OrderedKey(a) < OrderedKey(b)) << a << " " << b;
    ASSERT_EQ(a == b, OrderedKey(a) == OrderedKey(b)) << a << " " << b;
    ASSERT_EQ(FromOrderedKey(OrderedKey(a)), a);
  }
  EXPECT_EQ(OrderedKey(-0.0f), OrderedKey(0.0f));
  EXPECT_LT(OrderedKey(-kInfinity), OrderedKey(-std::numeric_limits<float>::max()));
}

TEST(SampleMathTest, PenaltiesStayFinite) {
  EXPECT_EQ(Penalised(3.0f, 0, 2, 1, 1), 3.0f) << "an id that never occurred";
  EXPECT_EQ(Penalised(3.0f, 1, 2, 1, 1), 1.5f) << "in the prompt only";
  EXPECT_EQ(Penalised(-3.0f, 1, 2, 1, 1), -6.0f);
  EXPECT_EQ(Penalised(3.0f, 5, 1, 1, 0.5f), 1.0f) << "3 - 2 x 0.5 - 1";
  EXPECT_EQ(Penalised(3e38f, 1, 0.1f, 0, 0), std::numeric_limits<float>::max());
  EXPECT_EQ(Penalised(-kInfinity, 1, 2, 0, 0), -kInfinity);
}

}  // namespace
}  // namespace baton::kernels::cuda
