// The device's quantization, run on the host, against the reference, which searches the nearest
// code.
#include "kernels/reference/fp8.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cuda/cta/fp8_math.h"
#include "kernels/float_convert.h"
#include "kernels/kv_row.h"

namespace baton::kernels {
namespace {

TEST(Fp8Test, EveryCodeIsTheNumberOfTheReferenceAndItsOwnNearest) {
  for (int code = 0; code < 256; ++code) {
    const float value = E4m3Value(static_cast<uint8_t>(code));
    if (std::isnan(value)) continue;
    EXPECT_EQ(cuda::E4m3FromFloat(value), code);
  }
  EXPECT_EQ(E4m3Value(0x7e), 448.0F);
  EXPECT_EQ(E4m3Value(0x08), 0.015625F);
  EXPECT_EQ(E4m3Value(0x01), 0.001953125F);
}

TEST(Fp8Test, TiesGoToTheEvenCode) {
  for (uint8_t code = 0; code < 0x7e; ++code) {
    const float half = (E4m3Value(code) + E4m3Value(static_cast<uint8_t>(code + 1))) / 2;
    EXPECT_EQ(cuda::E4m3FromFloat(half), (code + 1) / 2 * 2) << int{code};
    EXPECT_EQ(cuda::E4m3FromFloat(-half), 0x80 | (code + 1) / 2 * 2) << int{code};
    EXPECT_EQ(cuda::E4m3FromFloat(std::nextafterf(half, 0)), code);
    EXPECT_EQ(cuda::E4m3FromFloat(std::nextafterf(half, 1000)), code + 1);
  }
}

TEST(Fp8Test, WhatIsTooLargeBecomesTheLargest) {
  EXPECT_EQ(cuda::E4m3FromFloat(449), 0x7e);
  EXPECT_EQ(cuda::E4m3FromFloat(1e30F), 0x7e);
  EXPECT_EQ(cuda::E4m3FromFloat(-std::numeric_limits<float>::infinity()), 0xfe);
  EXPECT_EQ(cuda::E4m3FromFloat(std::nanf("")) & 0x7f, 0x7f);
}

TEST(Fp8Test, RowsAreQuantizedAsByTheReference) {
  constexpr uint32_t kSeed = 11;
  constexpr int64_t kRows = 40;
  constexpr int64_t kCols = 257;
  std::mt19937 random(kSeed);
  std::normal_distribution<float> normal;
  std::vector<float> values(kRows * kCols);
  for (int64_t row = 0; row < kRows; ++row) {
    const float spread = std::ldexp(1.0F, static_cast<int>(row % 20) - 10);
    for (int64_t col = 0; col < kCols; ++col) {
      values[static_cast<size_t>(row * kCols + col)] =
          row == 7 ? 0 : FloatFromBf16(Bf16FromFloat(normal(random) * spread));
    }
  }
  std::vector<uint8_t> codes(values.size());
  std::vector<float> scales(kRows);
  QuantizeRows(Matrix::Dense(values.data(), DType::kF32, kRows, kCols), codes, scales);
  EXPECT_EQ(scales[7], 1);
  for (int64_t row = 0; row < kRows; ++row) {
    float largest = 0;
    for (int64_t col = 0; col < kCols; ++col) {
      largest = std::max(largest, std::abs(values[static_cast<size_t>(row * kCols + col)]));
    }
    const float scale = cuda::ScaleOfRow(largest);
    ASSERT_EQ(scale, scales[static_cast<size_t>(row)]);
    for (int64_t col = 0; col < kCols; ++col) {
      const auto at = static_cast<size_t>(row * kCols + col);
      ASSERT_EQ(cuda::QuantizeElement(values[at], scale), codes[at])
          << values[at] << " by " << scale << ", seed " << kSeed;
      // Half a unit of three bits of mantissa, or of the smallest numbers.
      ASSERT_NEAR(E4m3Value(codes[at]) * scale, values[at],
                  std::max(std::abs(values[at]) / 16, scale * 0.001F));
    }
  }
}

TEST(Fp8Test, ByAChosenScaleWhatIsTooLargeIsCutOffAndWhatIsNoNumberShows) {
  constexpr float kScale = 0.25F;
  EXPECT_EQ(cuda::QuantizeBy(1, kScale), cuda::E4m3FromFloat(4));
  EXPECT_EQ(cuda::QuantizeBy(-1e6F, kScale), 0xfe);
  for (const float value : {std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(), std::nanf("")}) {
    EXPECT_TRUE(std::isnan(E4m3Value(cuda::QuantizeBy(value, kScale)))) << value;
  }
}

TEST(Fp8Test, CodesOfAKvCacheAreThoseOfTheHost) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  std::vector<float> values = {0,
                               -0.0F,
                               448,
                               464,
                               -480,
                               1e30F,
                               0x1.0p-10F,
                               0x1.8p-9F,
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(),
                               std::nanf(""),
                               -std::nanf("")};
  for (int i = 0; i < 5000; ++i) values.push_back(normal(random) * std::ldexp(1.0F, i % 24 - 12));
  std::vector<std::byte> row(values.size());
  for (const float scale : {1.0F, 0.013F, 7.0F}) {
    StoreKvRow(DType::kFp8, values, row.data(), scale);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(cuda::KvCode(values[i], scale), static_cast<uint8_t>(row[i]))
          << values[i] << " by " << scale;
    }
  }
}

TEST(Fp8Test, AScaleIsNeverSoSmallThatItsInverseOverflows) {
  EXPECT_EQ(cuda::ScaleOfRow(0), 1);
  const float scale = cuda::ScaleOfRow(std::numeric_limits<float>::denorm_min());
  EXPECT_GT(scale, 0);
  EXPECT_TRUE(std::isfinite(1 / scale));
}

TEST(Fp8Test, AProductOfCodesIsNearTheProductOfTheNumbers) {
  constexpr uint32_t kSeed = 5;
  constexpr int64_t kLength = 512;
  std::mt19937 random(kSeed);
  std::normal_distribution<float> normal;
  std::vector<float> rows[2];
  std::vector<uint8_t> codes[2];
  std::vector<float> scales[2];
  for (int i = 0; i < 2; ++i) {
    rows[i].resize(kLength);
    for (float& value : rows[i]) value = normal(random);
    codes[i].resize(kLength);
    scales[i].resize(1);
    QuantizeRows(Matrix::Dense(rows[i].data(), DType::kF32, 1, kLength), codes[i], scales[i]);
  }
  double expected = 0;
  for (size_t i = 0; i < kLength; ++i) expected += double{1} * rows[0][i] * rows[1][i];
  const double actual =
      DotQuantized(codes[0].data(), scales[0][0], codes[1].data(), scales[1][0], kLength);
  EXPECT_NEAR(actual, expected, 0.1 * std::sqrt(kLength));
}

}  // namespace
}  // namespace baton::kernels
