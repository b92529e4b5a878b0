// The kernels that round rows to e4m3 and add products, run on the host thread by thread, against
// the scalar reference.
#include "kernels/cuda/cta/fp8_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/host_memory.h"
#include "kernels/reference/fp8.h"
#include "tests/kernels/cuda/cta/element_values.h"
#include "tests/kernels/cuda/cta/host_cta.h"

namespace baton::kernels::cuda {
namespace {

using Order = HostCta::Order;

constexpr uint8_t kUntouchedCode = 0x5a;

struct Codes {
  std::vector<uint8_t> codes;
  std::vector<float> scales;

  friend bool operator==(const Codes&, const Codes&) = default;
};

struct RowsShape {
  int64_t rows = 1;
  int64_t cols = 0;
  int64_t gap = 0;   // elements between rows
  int64_t skip = 0;  // elements in front of the first one, where memory begins on 16 bytes
  int64_t skip_codes = 0;
};

// Rows of T in memory. Between them lie infinities, which no scale may notice.
template <typename T>
class EmulatedRows {
 public:
  EmulatedRows(const RowsShape& shape, const std::vector<float>& values)
      : shape_(shape),
        codes_(AllocateHost(CodeBytes()).value()),
        memory_(AllocateHost(static_cast<size_t>(Elements()) * sizeof(T)).value()) {
    auto* const elements = static_cast<T*>(memory_->data());
    for (int64_t i = 0; i < Elements(); ++i) Narrow(kInfinity, &elements[i]);
    for (int64_t row = 0; row < shape.rows; ++row) {
      for (int64_t col = 0; col < shape.cols; ++col) {
        Narrow(values[static_cast<size_t>(row * shape.cols + col)],
               &elements[shape.skip + row * stride() + col]);
      }
    }
  }

  // As LaunchQuantizeRows, or with a scale as LaunchQuantizeRowsBy.
  Codes Quantize(Order order, float scale = 0) {
    std::memset(codes_->data(), kUntouchedCode, codes_->size());
    Codes result;
    result.scales.resize(static_cast<size_t>(shape_.rows), -1);
    const RowsToCodes<T> rows = {.from = static_cast<T*>(memory_->data()) + shape_.skip,
                                 .stride = stride(),
                                 .cols = shape_.cols,
                                 .to = codes() + shape_.skip_codes,
                                 .scales = result.scales.data()};
    if (RowsAreWords(rows)) {
      Run<kWordElements<T>>(rows, order, scale);
    } else {
      Run<1>(rows, order, scale);
    }
    uint8_t* const end = rows.to + shape_.rows * shape_.cols;
    result.codes.assign(rows.to, end);
    const auto untouched = [](uint8_t code) { return code == kUntouchedCode; };
    EXPECT_TRUE(std::all_of(codes(), rows.to, untouched));
    EXPECT_TRUE(std::all_of(end, codes() + codes_->size(), untouched));
    return result;
  }

 private:
  template <int N>
  void Run(const RowsToCodes<T>& rows, Order order, float scale) {
    for (int64_t row = 0; row < shape_.rows; ++row) {
      HostCta cta(kQuantizeThreads, order);
      QuantizeShared shared;
      std::fill(std::begin(shared.of_warps), std::end(shared.of_warps), kInfinity);
      if (scale == 0) {
        QuantizeRow<T, N>(cta, rows, row, shared);
      } else {
        QuantizeRowBy<T, N>(cta, scale, rows, row);
      }
    }
  }
  int64_t stride() const { return shape_.cols + shape_.gap; }
  int64_t Elements() const { return shape_.skip + shape_.rows * stride(); }
  size_t CodeBytes() const {
    return static_cast<size_t>(shape_.skip_codes + shape_.rows * shape_.cols) + 16;
  }
  uint8_t* codes() { return static_cast<uint8_t*>(codes_->data()); }

  RowsShape shape_;
  std::unique_ptr<Buffer> codes_;
  std::unique_ptr<Buffer> memory_;
};

// Rows that end within a turn of the threads, or a word; and those that are no words.
std::vector<RowsShape> ShapesOfRows() {
  return {{.rows = 1, .cols = 16},
          {.rows = 1, .cols = 1},
          {.rows = 9, .cols = 77},
          {.rows = 3, .cols = 256},
          {.rows = 2, .cols = 515, .gap = 3},
          {.rows = 5, .cols = 264, .gap = 24},
          {.rows = 3, .cols = 264, .gap = 1},
          {.rows = 2, .cols = 264, .skip = 1},
          {.rows = 2, .cols = 264, .skip_codes = 1},
          {.rows = 3, .cols = 264, .gap = 8, .skip = 16, .skip_codes = 8},
          {.rows = 2, .cols = 2048},
          {.rows = 2, .cols = 2056},
          {.rows = 1, .cols = 4808, .gap = 16}};
}

std::string TextOf(const RowsShape& shape) {
  return testing::PrintToString(shape.rows) + " x " + testing::PrintToString(shape.cols) +
         ", gap " + testing::PrintToString(shape.gap) + ", skip " +
         testing::PrintToString(shape.skip) + " and " + testing::PrintToString(shape.skip_codes);
}

// Numbers of T, whose size differs from row to row.
template <typename T>
std::vector<float> RandomRows(const RowsShape& shape) {
  std::mt19937 random(static_cast<uint32_t>(shape.cols));
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(shape.rows * shape.cols));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto row = static_cast<int>(static_cast<int64_t>(i) / shape.cols);
    values[i] = normal(random) * std::ldexp(1.0F, row % 7 - 3);
  }
  return Widened(Narrowed<T>(values));
}

Codes Reference(std::vector<float> values, const RowsShape& shape) {
  Codes result;
  result.codes.resize(values.size());
  result.scales.resize(static_cast<size_t>(shape.rows));
  QuantizeRows(Matrix::Dense(values.data(), DType::kF32, shape.rows, shape.cols), result.codes,
               result.scales);
  return result;
}

template <typename T>
class Fp8RowsTest : public testing::Test {};
using RoundedElements = testing::Types<float, Bf16Bits, F16Bits>;
TYPED_TEST_SUITE(Fp8RowsTest, RoundedElements);

TYPED_TEST(Fp8RowsTest, EqualTheReferenceInEveryOrderOfThreads) {
  for (const RowsShape& shape : ShapesOfRows()) {
    SCOPED_TRACE(TextOf(shape));
    const std::vector<float> values = RandomRows<TypeParam>(shape);
    const Codes expected = Reference(values, shape);
    EmulatedRows<TypeParam> rows(shape, values);
    for (const Order order : kOrdersOfThreads) {
      const Codes actual = rows.Quantize(order);
      ASSERT_EQ(actual.scales, expected.scales);
      ASSERT_EQ(actual.codes, expected.codes);
    }
  }
}

// One access moves 16 bytes of the row where that is allowed, and one element otherwise.
TYPED_TEST(Fp8RowsTest, WordsAreTakenOnlyWhereBothPlacesAreAligned) {
  alignas(16) TypeParam from[64] = {};
  alignas(16) uint8_t to[64] = {};
  constexpr int kElements = kWordElements<TypeParam>;
  const RowsToCodes<TypeParam> whole = {
      .from = from, .stride = 2 * kElements, .cols = kElements, .to = to};
  EXPECT_TRUE(RowsAreWords(whole));
  RowsToCodes<TypeParam> rows = whole;
  rows.cols = kElements - 1;
  EXPECT_FALSE(RowsAreWords(rows));
  rows = whole;
  rows.stride = kElements + 1;
  EXPECT_FALSE(RowsAreWords(rows));
  rows = whole;
  rows.from = from + 1;
  EXPECT_FALSE(RowsAreWords(rows));
  rows = whole;
  rows.to = to + 1;
  EXPECT_FALSE(RowsAreWords(rows));
  rows.to = to + kElements;
  EXPECT_TRUE(RowsAreWords(rows));
}

// Whichever thread finds it: of each lane, warp and turn.
TYPED_TEST(Fp8RowsTest, TheLargestCountsWhereverItStands) {
  for (const int64_t cols : {515, 2056}) {
    const RowsShape shape = {.rows = 1, .cols = cols};
    std::vector<float> values(static_cast<size_t>(cols), 0.5F);
    for (size_t at = 0; at < values.size(); ++at) {
      values[at] = at % 2 == 0 ? 112 : -112;
      const Codes actual = EmulatedRows<TypeParam>(shape, values).Quantize(Order::kForward);
      ASSERT_EQ(actual.scales[0], 0.25F) << at << " of " << cols;
      ASSERT_EQ(actual.codes[at], at % 2 == 0 ? 0x7e : 0xfe) << at << " of " << cols;
      values[at] = 0.5F;
    }
  }
}

TYPED_TEST(Fp8RowsTest, ARowWithNanOrInfinityHasAScaleOfNanAndNoOtherRowNotices) {
  for (const int64_t cols : {515, 2056}) {
    const RowsShape shape = {.rows = 3, .cols = cols};
    const std::vector<float> plain = RandomRows<TypeParam>(shape);
    const Codes expected = Reference(plain, shape);
    for (int64_t at = 0; at < cols; at += 17) {
      for (const float value : {kNan, -kNan, kInfinity, -kInfinity}) {
        SCOPED_TRACE(testing::Message() << value << " at " << at << " of " << cols);
        std::vector<float> values = plain;
        values[static_cast<size_t>(cols + at)] = value;
        // What is larger than all else, where it is read behind the NaN.
        if (at + 1 < cols) values[static_cast<size_t>(2 * cols - 1)] = 60000;
        const Codes actual = EmulatedRows<TypeParam>(shape, values).Quantize(Order::kShuffled);
        ASSERT_TRUE(std::isnan(actual.scales[1]));
        ASSERT_EQ(actual.scales[0], expected.scales[0]);
        ASSERT_EQ(actual.scales[2], expected.scales[2]);
        for (int64_t i = 0; i < 3 * cols; ++i) {
          const auto index = static_cast<size_t>(i);
          const bool own = i / cols != 1;
          ASSERT_EQ(actual.codes[index],
                    own ? expected.codes[index]
                        : E4m3FromFloat(Widen(Narrowed<TypeParam>({values[index]})[0])))
              << i;
        }
      }
    }
  }
}

TYPED_TEST(Fp8RowsTest, ARowOfZerosHasAScaleOfOne) {
  for (const int64_t cols : {1, 77, 264}) {
    std::vector<float> values(static_cast<size_t>(2 * cols), 0);
    for (int64_t i = 0; i < cols; ++i) values[static_cast<size_t>(cols + i)] = -0.0F;
    const Codes actual =
        EmulatedRows<TypeParam>({.rows = 2, .cols = cols}, values).Quantize(Order::kBackward);
    EXPECT_EQ(actual.scales, (std::vector<float>{1, 1}));
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(actual.codes[i], std::signbit(values[i]) ? 0x80 : 0);
    }
  }
}

TEST(Fp8SmallRowsTest, AScaleIsNeverSoSmallThatItsInverseOverflows) {
  const std::vector<float> values(20, 1e-35F);
  const Codes actual =
      EmulatedRows<float>({.rows = 1, .cols = 20}, values).Quantize(Order::kForward);
  EXPECT_EQ(actual.scales[0], 1e-30F);
}

TYPED_TEST(Fp8RowsTest, ByAChosenScaleEveryElementIsRoundedByItself) {
  constexpr float kScale = 0.05F;
  for (const RowsShape& shape : ShapesOfRows()) {
    SCOPED_TRACE(TextOf(shape));
    std::vector<float> values = RandomRows<TypeParam>(shape);
    const std::vector<float> special = {kNan, -kNan, kInfinity, -kInfinity, 30000, -30000, -0.0F};
    for (size_t i = 0; i < special.size() && 11 * i < values.size(); ++i) {
      values[11 * i] = special[i];
    }
    values = Widened(Narrowed<TypeParam>(values));
    EmulatedRows<TypeParam> rows(shape, values);
    for (const Order order : kOrdersOfThreads) {
      const Codes actual = rows.Quantize(order, kScale);
      ASSERT_EQ(actual.scales, std::vector<float>(static_cast<size_t>(shape.rows), kScale));
      for (size_t i = 0; i < values.size(); ++i) {
        const uint8_t expected =
            std::isfinite(values[i]) ? kernels::E4m3FromFloat(values[i] / kScale) : 0x7f;
        ASSERT_EQ(actual.codes[i], expected) << values[i] << " at " << i;
      }
    }
  }
}

template <typename Pair>
class AddedProductTest : public testing::Test {};
using ElementPairs =
    testing::Types<std::pair<float, float>, std::pair<float, Bf16Bits>, std::pair<float, F16Bits>,
                   std::pair<Bf16Bits, float>, std::pair<Bf16Bits, Bf16Bits>,
                   std::pair<Bf16Bits, F16Bits>, std::pair<F16Bits, float>,
                   std::pair<F16Bits, Bf16Bits>, std::pair<F16Bits, F16Bits>>;
TYPED_TEST_SUITE(AddedProductTest, ElementPairs);

// As LaunchAddProduct.
template <typename T, typename Out>
void AddProduct(const ProductToAdd<T, Out>& add, int64_t rows, Order order) {
  const int64_t parts = (add.cols + kQuantizeThreads - 1) / kQuantizeThreads;
  for (int64_t block = 0; block < rows * parts; ++block) {
    HostCta cta(kQuantizeThreads, order);
    AddProductPart(cta, add, block % parts, block / parts);
  }
}

TYPED_TEST(AddedProductTest, IsRoundedOnceBehindBiasAndWhatStoodThere) {
  using T = typename TypeParam::first_type;
  using Out = typename TypeParam::second_type;
  for (const auto& [rows, cols] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {5, 255}, {1, 256}, {3, 257}, {2, 600}}) {
    const std::vector<T> product = Narrowed<T>(RandomRows<T>({.rows = rows, .cols = cols}));
    std::vector<float> bias = RandomRows<float>({.rows = 1, .cols = cols});
    bias[0] = kInfinity;
    // With an element behind the last one.
    std::vector<float> before = RandomRows<float>({.rows = 1, .cols = rows * cols + 1});
    for (const auto& [biased, accumulate] :
         {std::pair(false, false), {false, true}, {true, false}, {true, true}}) {
      std::vector<Out> out = Narrowed<Out>(before);
      std::vector<Out> expected = out;
      for (size_t i = 0; i < product.size(); ++i) {
        float value = Widen(product[i]);
        if (biased) value += bias[i % static_cast<size_t>(cols)];
        if (accumulate) value += Widen(expected[i]);
        Narrow(value, &expected[i]);
      }
      AddProduct<T, Out>({.product = product.data(),
                          .bias = biased ? bias.data() : nullptr,
                          .accumulate = accumulate,
                          .out = out.data(),
                          .cols = cols},
                         rows, Order::kShuffled);
      ASSERT_EQ(BitsOf(out), BitsOf(expected)) << rows << " x " << cols;
    }
  }
}

TEST(AddedProductPlaceTest, MayBeTheMemoryOfTheProduct) {
  const RowsShape shape = {.rows = 3, .cols = 300};
  const std::vector<float> bias = RandomRows<float>({.rows = 1, .cols = shape.cols});
  std::vector<Bf16Bits> out = Narrowed<Bf16Bits>(RandomRows<Bf16Bits>(shape));
  std::vector<Bf16Bits> expected = out;
  for (size_t i = 0; i < expected.size(); ++i) {
    Narrow(Widen(expected[i]) + bias[i % static_cast<size_t>(shape.cols)], &expected[i]);
  }
  AddProduct<Bf16Bits, Bf16Bits>(
      {.product = out.data(), .bias = bias.data(), .out = out.data(), .cols = shape.cols},
      shape.rows, Order::kBackward);
  EXPECT_EQ(BitsOf(out), BitsOf(expected));
}

}  // namespace
}  // namespace baton::kernels::cuda
