// The kernels of products by small integers, run on the host thread by thread: against sums over
// the numbers that the weight stands for, and rows that keep their bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tests/kernels/cuda/gemm/emulated_integers.h"

namespace baton::kernels::cuda {
namespace {

using Order = HostCta::Order;

constexpr uint32_t kSeed = 3;

// The shapes that differ in how words, runs and groups end.
std::vector<QuantizedShape> Shapes() {
  std::vector<QuantizedShape> shapes;
  for (const int bits : {4, 8}) {
    for (const bool zeros : {false, true}) {
      // Several stripes, one that ends short, and words that do.
      shapes.push_back(
          {.bits = bits, .rows = 21, .cols = 2240, .group = 128, .zero_points = zeros});
      shapes.push_back({.bits = bits, .rows = 5, .cols = 80, .group = 16, .zero_points = zeros});
      shapes.push_back({.bits = bits, .rows = 33, .cols = 77, .group = 77, .zero_points = zeros});
      shapes.push_back({.bits = bits,
                        .rows = 16,
                        .cols = 300,
                        .group = 300,
                        .zero_points = zeros,
                        .scale_dtype = DType::kF16});
    }
    shapes.push_back({.bits = bits,
                      .rows = 18,
                      .cols = 1120,
                      .group = 32,
                      .scale_dtype = DType::kF32,
                      .minimums = true,
                      .zero_point = -8});
    shapes.push_back({.bits = bits,
                      .rows = 17,
                      .cols = 544,
                      .group = 32,
                      .zero_points = true,
                      .shuffled = true});
  }
  return shapes;
}

std::string TextOf(const QuantizedShape& shape) {
  return testing::PrintToString(shape.bits) + " bits, " + testing::PrintToString(shape.rows) +
         " x " + testing::PrintToString(shape.cols) + " in groups of " +
         testing::PrintToString(shape.group);
}

std::vector<float> RandomValues(int64_t count) {
  std::mt19937 random(kSeed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = FloatFromBf16(Bf16FromFloat(normal(random)));
  return values;
}

template <typename T>
std::vector<float> Multiply(const EmulatedIntegers& weight, const std::vector<T>& in, int64_t first,
                            int rows, Order order, bool scalar = false) {
  const int64_t in_cols = weight.view().in;
  std::vector<float> out(static_cast<size_t>(rows * weight.view().out), std::nanf(""));
  // A copy, as the alignment of its rows must not depend on `first`.
  const auto buffer = AllocateHost(static_cast<size_t>(rows * in_cols) * sizeof(T)).value();
  std::memcpy(buffer->data(), in.data() + first * in_cols, buffer->size());
  weight.Multiply<T>(
      {.rows = rows, .in = static_cast<const T*>(buffer->data()), .out_floats = out.data()}, order,
      scalar);
  return out;
}

TEST(IntegerProductTest, EqualsTheSumOverTheNumbers) {
  constexpr int kRows = 16;
  for (const QuantizedShape& shape : Shapes()) {
    SCOPED_TRACE(TextOf(shape));
    const RandomQuantized random(shape);
    const QuantizedTensor& tensor = random.tensor();
    const EmulatedIntegers weight(tensor, {});
    const std::vector<float> in = RandomValues(kRows * shape.cols);
    for (const int rows : {1, 2, 3, 7, 16}) {
      const std::vector<float> out =
          Multiply(weight, Narrowed<Bf16Bits>(in), 0, rows, Order::kForward);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t n = 0; n < shape.rows; ++n) {
          double sum = 0;
          double size = 0;
          for (int64_t k = 0; k < shape.cols; ++k) {
            const int64_t input = tensor.input_of != nullptr ? tensor.input_of[k] : k;
            const double term =
                double{tensor.at(n, k)} * in[static_cast<size_t>(row * shape.cols + input)];
            sum += term;
            size += std::abs(term);
          }
          ASSERT_NEAR(out[static_cast<size_t>(row * shape.rows + n)], sum, 2e-6 * size + 1e-6)
              << rows << " rows, row " << row << ", output " << n;
        }
      }
    }
  }
}

TEST(IntegerProductTest, RowsKeepTheirBitsBesideOthersInEveryOrderOfThreads) {
  constexpr int kRows = 16;
  for (const QuantizedShape& shape : Shapes()) {
    SCOPED_TRACE(TextOf(shape));
    const RandomQuantized random(shape);
    const EmulatedIntegers weight(random.tensor(), {});
    const auto in = Narrowed<F16Bits>(RandomValues(kRows * shape.cols));
    std::vector<float> alone;
    for (int row = 0; row < kRows; ++row) {
      const auto one = Multiply(weight, in, row, 1, Order::kForward);
      alone.insert(alone.end(), one.begin(), one.end());
    }
    for (const int rows : {2, 3, 4, 5, 8, 9, 16}) {
      for (const Order order : {Order::kForward, Order::kBackward, Order::kShuffled}) {
        const auto out = Multiply(weight, in, kRows - rows, rows, order);
        ASSERT_EQ(std::memcmp(out.data(), alone.data() + alone.size() - out.size(),
                              out.size() * sizeof(float)),
                  0)
            << rows << " rows";
      }
    }
    // Loads of single elements give the same.
    EXPECT_EQ(Multiply(weight, in, 0, 3, Order::kForward, /*scalar=*/true),
              Multiply(weight, in, 0, 3, Order::kForward));
  }
}

TEST(IntegerProductTest, AShardIsTheProductOfItsPart) {
  const QuantizedShape shape = {
      .bits = 4, .rows = 40, .cols = 768, .group = 128, .zero_points = true, .minimums = true};
  const RandomQuantized random(shape);
  const QuantizedTensor& tensor = random.tensor();
  // The last one cuts a group, both of whose parts keep its scale.
  for (const Shard& shard :
       {Shard{.out_begin = 7, .out_end = 31}, Shard{.in_begin = 128, .in_end = 512},
        Shard{.out_begin = 3, .in_begin = 64, .in_end = 336}}) {
    const EmulatedIntegers weight(tensor, shard);
    const QuantizedView& view = weight.view();
    const auto numbers = weight.Widened<float>();
    for (int64_t n = 0; n < view.out; ++n) {
      for (int64_t k = 0; k < view.in; ++k) {
        ASSERT_EQ(numbers[static_cast<size_t>(n * view.in + k)],
                  tensor.at(shard.out_begin + n, shard.in_begin + k));
      }
    }
  }
}

template <typename T>
class WidenedIntegersTest : public testing::Test {};
using Elements = testing::Types<float, Bf16Bits, F16Bits>;
TYPED_TEST_SUITE(WidenedIntegersTest, Elements);

TYPED_TEST(WidenedIntegersTest, AreTheNumbersRoundedOnceAtThePlacesOfTheirInputs) {
  for (const QuantizedShape& shape : Shapes()) {
    SCOPED_TRACE(TextOf(shape));
    const RandomQuantized random(shape);
    const QuantizedTensor& tensor = random.tensor();
    const auto numbers = EmulatedIntegers(tensor, {}).Widened<TypeParam>();
    for (int64_t n = 0; n < shape.rows; ++n) {
      for (int64_t k = 0; k < shape.cols; ++k) {
        const int64_t input = tensor.input_of != nullptr ? tensor.input_of[k] : k;
        TypeParam expected;
        Narrow(tensor.at(n, k), &expected);
        ASSERT_EQ(std::memcmp(&numbers[static_cast<size_t>(n * shape.cols + input)], &expected,
                              sizeof(expected)),
                  0)
            << n << ", " << k;
      }
    }
  }
}

TEST(IntegerProductTest, BiasAndResidualAreAddedToTheSum) {
  const QuantizedShape shape = {.bits = 8, .rows = 19, .cols = 160, .group = 32};
  const RandomQuantized random(shape);
  const EmulatedIntegers weight(random.tensor(), {});
  constexpr int kRows = 5;
  const std::vector<float> in = RandomValues(kRows * shape.cols);
  const std::vector<float> plain = Multiply(weight, in, 0, kRows, Order::kForward);
  const std::vector<float> bias = RandomValues(shape.rows);
  const std::vector<float> before = RandomValues(kRows * shape.rows);
  std::vector<float> added = before;
  weight.Multiply<float>({.rows = kRows,
                          .in = in.data(),
                          .out_floats = added.data(),
                          .bias = bias.data(),
                          .accumulate = true},
                         Order::kBackward);
  std::vector<Bf16Bits> rounded(plain.size());
  const auto narrow = Narrowed<Bf16Bits>(in);  // exact: these are numbers of bf16
  weight.Multiply<Bf16Bits>(
      {.rows = kRows, .in = narrow.data(), .out_rounded = rounded.data(), .bias = bias.data()},
      Order::kBackward);
  for (size_t i = 0; i < plain.size(); ++i) {
    const float with_bias = plain[i] + bias[i % static_cast<size_t>(shape.rows)];
    ASSERT_EQ(added[i], before[i] + with_bias) << i;
    ASSERT_EQ(rounded[i].bits, Bf16FromFloat(with_bias)) << i;
  }
}

TEST(IntegerProductTest, TakesTheRoomOfItsBits) {
  for (const int bits : {4, 8}) {
    const RandomQuantized random({.bits = bits, .rows = 64, .cols = 1024, .group = 128});
    EXPECT_EQ(EmulatedIntegers(random.tensor(), {}).bytes(),
              static_cast<size_t>(64 * 1024 * bits / 8 + 64 * 8 * 2));
  }
}

// Eight lanes that read neighbouring words read neighbouring inputs.
TEST(IntegerLayoutTest, ARowOfRunsIsInTheOrderOfTheColumns) {
  for (const int bits : {4, 8}) {
    const QuantizedView view = {.bits = bits, .out = 1, .in = 2240, .words = 2240 * bits / 128};
    std::vector<int> seen(static_cast<size_t>(view.in), 0);
    for (int64_t word = 0; word < view.words; ++word) {
      for (int run = 0; run < RunsOfWord(bits); ++run) {
        const int64_t column = ColumnOfRun(view, word, run);
        ASSERT_EQ(column % kRunColumns, 0);
        for (int i = 0; i < kRunColumns; ++i) ++seen[static_cast<size_t>(column + i)];
        if (word % kStripeWords != 0) {
          EXPECT_EQ(column, ColumnOfRun(view, word - 1, run) + kRunColumns);
        }
      }
    }
    EXPECT_THAT(seen, testing::Each(1));
  }
}

}  // namespace
}  // namespace baton::kernels::cuda
