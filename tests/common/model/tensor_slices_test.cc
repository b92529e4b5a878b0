#include "common/model/tensor_slices.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/float_convert.h"

namespace baton {
namespace {

using kernels::DType;

constexpr DType kAll[] = {DType::kF32, DType::kBF16, DType::kF16};

float Value(int64_t i) { return static_cast<float>(i % 251 - 125) / 8.0F; }  // exact in all dtypes

std::vector<std::byte> Encode(const std::vector<float>& values, DType dtype, size_t offset) {
  std::vector<std::byte> bytes(values.size() * SizeOf(dtype) + offset);
  for (size_t i = 0; i < values.size(); ++i) {
    std::byte* const to = bytes.data() + offset + i * SizeOf(dtype);
    const uint16_t bits = dtype == DType::kBF16 ? kernels::Bf16FromFloat(values[i])
                                                : kernels::F16FromFloat(values[i]);
    if (dtype == DType::kF32) {
      std::memcpy(to, &values[i], 4);
    } else {
      std::memcpy(to, &bits, 2);
    }
  }
  return bytes;
}

TEST(CopySlicesTest, TakesRectanglesOfAnyDtypeAtAnyAddress) {
  constexpr int64_t kStride = 37;
  for (const DType from : kAll) {
    for (const DType to : kAll) {
      for (const size_t offset : {0, 1, 3}) {
        SCOPED_TRACE(testing::Message() << Name(from) << " to " << Name(to) << " at " << offset);
        std::vector<float> values;
        for (int64_t i = 0; i < 20 * kStride; ++i) values.push_back(Value(i));
        const std::vector<std::byte> bytes = Encode(values, from, offset);
        const auto at = [&](int64_t row, int64_t col) {
          return bytes.data() + offset + static_cast<size_t>(row * kStride + col) * SizeOf(from);
        };
        const std::vector<TensorSlice> slices = {{at(2, 5), from, 3, 11, kStride},
                                                 {at(15, 26), from, 5, 11, kStride}};
        std::vector<std::byte> out(8 * 11 * SizeOf(to));
        CopySlices(slices, to, out.data());
        size_t next = 0;
        for (const auto& [first_row, rows, first_col] :
             {std::tuple(2, 3, 5), std::tuple(15, 5, 26)}) {
          for (int64_t row = first_row; row < first_row + rows; ++row) {
            for (int64_t col = first_col; col < first_col + 11; ++col) {
              ASSERT_EQ(kernels::LoadElement(out.data(), to, static_cast<int64_t>(next++)),
                        Value(row * kStride + col));
            }
          }
        }
      }
    }
  }
}

TEST(CopySlicesTest, ALargeCopyInManyPiecesIsThatOfOne) {
  constexpr int64_t kRows = 3001;
  constexpr int64_t kCols = 1000;
  std::vector<float> values(kRows * kCols);
  for (size_t i = 0; i < values.size(); ++i) values[i] = Value(static_cast<int64_t>(i));
  const TensorSlice slice = {reinterpret_cast<const std::byte*>(values.data()), DType::kF32, kRows,
                             kCols, kCols};
  std::vector<uint16_t> out(values.size());
  CopySlices({&slice, 1}, DType::kBF16, reinterpret_cast<std::byte*>(out.data()));
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(out[i], kernels::Bf16FromFloat(values[i])) << i;
  }
}

// Against the compiler's own type.
TEST(F16FromFloatTest, RoundsToNearestEven) {
  const uint32_t seed = 7;
  std::mt19937 random(seed);
  for (int i = 0; i < 2000000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (value != value) continue;
    const _Float16 expected = static_cast<_Float16>(value);
    ASSERT_EQ(kernels::F16FromFloat(value), std::bit_cast<uint16_t>(expected))
        << value << ", seed " << seed;
  }
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = kernels::FloatFromF16(static_cast<uint16_t>(bits));
    if (value != value) continue;
    EXPECT_EQ(kernels::F16FromFloat(value), bits);
    // Half way to the next number: ties go to the even one.
    const float next = kernels::FloatFromF16(static_cast<uint16_t>(bits + 1));
    if (!(std::abs(next) < 65536.0F)) continue;
    EXPECT_EQ(kernels::F16FromFloat((value + next) / 2), (bits + 1) / 2 * 2) << value;
  }
  EXPECT_EQ(kernels::F16FromFloat(std::numeric_limits<float>::quiet_NaN()) & 0x7e00, 0x7e00);
}

}  // namespace
}  // namespace baton
