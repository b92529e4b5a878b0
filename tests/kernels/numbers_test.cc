// The small pieces of arithmetic that everything else rests on.
#include <cmath>
#include <limits>
#include <random>

#include "common/base/philox.h"
#include "kernels/exp_f32.h"
#include "kernels/reference/fp8.h"
#include "tests/kernels/kernel_fixture.h"

namespace baton::kernels {
namespace {

// Known answers of the Random123 distribution (kat_vectors, philox4x32 10).
TEST(PhiloxTest, KnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(base::Philox4x32({0, 0, 0, 0}, 0),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(base::Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, ~uint64_t{0}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(base::Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                             uint64_t{0x299f31d0} << 32 | 0xa4093822),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, CoinsAreUniformOverPositionsAndDiffer) {
  double sum = 0;
  for (uint32_t position = 0; position < 10000; ++position) {
    const double u = base::Coin(42, position, 0);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    ASSERT_NE(u, base::Coin(42, position, 1));
    ASSERT_NE(u, base::Coin(43, position, 0));
    sum += u;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.015);
}

TEST(ExpF32Test, IsCloseToExp) {
  for (float x = -87; x <= 80; x += 0.0137f) {
    const double exact = std::exp(static_cast<double>(x));
    ASSERT_NEAR(ExpF32(x), exact, 2e-7 * exact) << x;
  }
  EXPECT_EQ(ExpF32(0), 1.0f);
  EXPECT_EQ(ExpF32(-88), 0.0f);
  EXPECT_EQ(ExpF32(-std::numeric_limits<float>::infinity()), 0.0f);
}

TEST(FloatConvertTest, Bf16RoundsToNearestEven) {
  EXPECT_EQ(Bf16FromFloat(1.0f), 0x3f80);
  EXPECT_EQ(Bf16FromFloat(std::bit_cast<float>(0x3f808000)), 0x3f80) << "a tie goes to even";
  EXPECT_EQ(Bf16FromFloat(std::bit_cast<float>(0x3f818000)), 0x3f82) << "a tie goes to even";
  EXPECT_EQ(Bf16FromFloat(std::bit_cast<float>(0x3f808001)), 0x3f81);
  EXPECT_EQ(Bf16FromFloat(std::bit_cast<float>(0x7f7fffff)), 0x7f80) << "overflows to infinity";
  EXPECT_TRUE(std::isnan(FloatFromBf16(Bf16FromFloat(std::bit_cast<float>(0x7f800001)))));
}

TEST(FloatConvertTest, F16IsExact) {
  EXPECT_EQ(FloatFromF16(0x3c00), 1.0f);
  EXPECT_EQ(FloatFromF16(0xc000), -2.0f);
  EXPECT_EQ(FloatFromF16(0x7bff), 65504.0f);
  EXPECT_EQ(FloatFromF16(0x0001), 0x1.0p-24f);
  EXPECT_EQ(FloatFromF16(0x8400), -0x1.0p-14f);
  EXPECT_TRUE(std::isinf(FloatFromF16(0x7c00)));
  EXPECT_TRUE(std::isnan(FloatFromF16(0x7e00)));
}

TEST(FloatConvertTest, E4m3IsThatOfTheOracle) {
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    const float value = FloatFromE4m3(byte);
    if (std::isnan(E4m3Value(byte))) {
      EXPECT_TRUE(std::isnan(value)) << code;
      continue;
    }
    EXPECT_EQ(value, E4m3Value(byte)) << code;
    EXPECT_EQ(E4m3FromFloat(value), byte);
    if ((code & 0x7f) >= 0x7e) continue;
    // Between it and the next code: below, at and above the tie.
    const float next = FloatFromE4m3(static_cast<uint8_t>(code + 1));
    const float tie = (value + next) / 2;
    EXPECT_EQ(E4m3FromFloat(tie), code % 2 == 0 ? code : code + 1) << "a tie goes to even";
    EXPECT_EQ(E4m3FromFloat(std::nextafter(tie, value)), code);
    EXPECT_EQ(E4m3FromFloat(std::nextafter(tie, next)), code + 1);
  }
  EXPECT_EQ(E4m3FromFloat(1e30f), 0x7e) << "saturates";
  EXPECT_EQ(E4m3FromFloat(-std::numeric_limits<float>::infinity()), 0xfe);
  EXPECT_EQ(E4m3FromFloat(NAN) & 0x7f, 0x7f);
}

// The vector code rounds and exponentiates exactly as the scalar code does.
TEST(FloatConvertTest, BackendsStoreTheSameBf16) {
  for (const Way& way : CpuWays()) {
    if (way.dtype != DType::kBF16) continue;
    const auto backend = Make(way);
    TestMatrix in = TestMatrix::Random(DType::kF32, 1, 1000, 3, 100);
    TestMatrix out(DType::kBF16, 1, 1000);
    const TestMatrix ones = [] {
      TestMatrix weight(DType::kF32, 1, 1000);
      for (int i = 0; i < 1000; ++i) StoreElement(weight.data(), DType::kF32, i, 1);
      return weight;
    }();
    TestMatrix unrounded(DType::kF32, 1, 1000);
    const auto weight = backend->UploadVector(ones.tensor());
    backend->RmsNorm(in.view(), **weight, 0, out.view());
    backend->RmsNorm(in.view(), **weight, 0, unrounded.view());
    for (int i = 0; i < 1000; ++i) {
      ASSERT_EQ(out.at(0, i), RoundTo(DType::kBF16, unrounded.at(0, i))) << way.name();
    }
  }
}

}  // namespace
}  // namespace baton::kernels
