// Products by weights of small integers: every CPU way has the bits of the scalar reference, and
// they are near the products by inputs as they are.
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/kernel_fixture.h"
#include "tests/kernels/quantized_fixture.h"

namespace baton::kernels {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class QuantizedTest : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    backend_ = Make(GetParam());
    reference_ = Make({Device::kReference, "auto", GetParam().dtype});
  }
  DType dtype() const { return GetParam().dtype; }
  std::unique_ptr<Backend> WithThreads(int threads) const {
    Way way = GetParam();
    way.threads = threads;
    return Make(way);
  }

  // Runs the product by a shard of the weight on both backends, which give the same bits.
  void Compare(const QuantizedShape& shape, const Shard& shard, int64_t rows, DType out_dtype,
               bool bias = false, bool accumulate = false) {
    SCOPED_TRACE(testing::Message()
                 << rows << " rows, " << shape.rows << " x " << shape.cols << " of " << shape.bits
                 << " bits in groups of " << shape.group << ", zero points " << shape.zero_points
                 << ", minimums " << shape.minimums << ", zero point " << shape.zero_point
                 << ", shuffled " << shape.shuffled << ", scales " << Name(shape.scale_dtype)
                 << ", units " << shape.unit_groups);
    const RandomQuantized weight(shape);
    const TestMatrix bias_values = TestMatrix::Random(DType::kF32, 1, shape.rows, 2);
    std::vector<TestMatrix> results;
    for (Backend* backend : {backend_.get(), reference_.get()}) {
      const auto packed = backend->PackQuantized(weight.tensor(), shard);
      ASSERT_TRUE(packed.ok()) << packed.status();
      EXPECT_TRUE((*packed)->quantized());
      TestMatrix x = TestMatrix::Random(dtype(), rows, (*packed)->in(), 3);
      results.push_back(TestMatrix::Random(out_dtype, rows, (*packed)->out(), 4));
      const auto uploaded = backend->UploadVector(bias_values.tensor());
      backend->MatMul(**packed, x.view(), results.back().view(),
                      {.bias = bias ? uploaded->get() : nullptr, .accumulate = accumulate});
    }
    for (int64_t row = 0; row < rows; ++row) {
      ASSERT_EQ(results[0].bits(row), results[1].bits(row)) << "row " << row;
    }
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Backend> reference_;
};

TEST_P(QuantizedTest, MinimumsAreTakenOffWithEveryKindOfZeroPoint) {
  for (const int bits : {4, 8}) {
    for (const int64_t rows : {1, 2, 5, 6, 13, 65}) {
      for (const int16_t zero_point : {-8, 0, 3}) {
        for (const bool minimums : {false, true}) {
          Compare({.bits = bits,
                   .rows = 33,
                   .cols = 96,
                   .group = 16,
                   .scale_dtype = DType::kF32,
                   .minimums = minimums,
                   .zero_point = zero_point},
                  {}, rows, DType::kF32);
        }
      }
      Compare({.bits = bits,
               .rows = 20,
               .cols = 96,
               .zero_points = true,
               .scale_dtype = DType::kF16,
               .minimums = true},
              {.out_begin = 2, .in_begin = 32}, rows, DType::kF32);
    }
  }
}

// Scales and minimums as GGUF's K types have them, with parts that begin between the columns of a
// unit and rows that end between them.
TEST_P(QuantizedTest, IntegersTimesUnitsScaleAsTheReference) {
  for (const int bits : {4, 8}) {
    for (const int64_t group : {16, 32}) {
      for (const bool minimums : {false, true}) {
        const QuantizedShape shape = {.bits = bits,
                                      .rows = 33,
                                      .cols = 768,
                                      .group = group,
                                      .minimums = minimums,
                                      .unit_groups = 256 / group};
        for (const int64_t rows : {1, 3, 4, 13, 30}) {
          Compare(shape, {}, rows, DType::kF32);
          Compare(shape, {.out_begin = 3, .in_begin = 256}, rows, DType::kF32);
          Compare(shape, {.in_begin = 64, .in_end = 736}, rows, DType::kF32);
          Compare(shape, {.in_begin = 16, .in_end = 272}, rows, DType::kF32);
        }
      }
    }
  }
}

TEST_P(QuantizedTest, IntegersTimesUnitsTakeTheirOwnRoom) {
  const RandomQuantized weight(
      {.bits = 4, .rows = 64, .cols = 1024, .minimums = true, .unit_groups = 8});
  const auto packed = backend_->PackQuantized(weight.tensor(), {});
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ((*packed)->bytes(), static_cast<size_t>(64 * 1024 / 2 + 64 * 32 * 2 + 64 * 4 * 4));
}

TEST_P(QuantizedTest, MatMulEqualsReferenceForEveryNumberOfRows) {
  for (const int bits : {4, 8}) {
    for (int64_t rows = 1; rows <= 40; ++rows) {
      Compare({.bits = bits, .rows = 49, .cols = 96, .zero_points = rows % 2 == 0}, {}, rows,
              dtype());
    }
    for (const int64_t rows : {65, 97, 200}) {
      Compare({.bits = bits, .rows = 33, .cols = 288, .group = 128}, {}, rows, dtype());
    }
  }
}

TEST_P(QuantizedTest, MatMulEqualsReferenceForEveryGroup) {
  for (const int bits : {4, 8}) {
    for (const bool zeros : {false, true}) {
      for (const int64_t group : {16, 32, 64, 128, 256, 1024}) {
        Compare({.bits = bits, .rows = 50, .cols = 512, .group = group, .zero_points = zeros}, {},
                3, DType::kF32);
      }
      // A scale for each row, and groups that end short.
      Compare({.bits = bits, .rows = 130, .cols = 77, .group = 77, .zero_points = zeros}, {}, 9,
              DType::kF32);
      Compare({.bits = bits, .rows = 20, .cols = 300, .group = 300, .zero_points = zeros}, {}, 1,
              DType::kF32);
      Compare({.bits = bits, .rows = 16, .cols = 80, .group = 32, .zero_points = zeros}, {}, 4,
              DType::kF32);
    }
  }
}

TEST_P(QuantizedTest, MatMulEqualsReferenceForEveryScaleAndOrder) {
  for (const DType scale : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const bool shuffled : {false, true}) {
      Compare({.bits = 4,
               .rows = 40,
               .cols = 256,
               .group = 64,
               .zero_points = true,
               .scale_dtype = scale,
               .shuffled = shuffled},
              {}, 5, DType::kF32);
    }
  }
}

TEST_P(QuantizedTest, MatMulEpiloguesAndShards) {
  const QuantizedShape shape = {
      .bits = 4, .rows = 96, .cols = 384, .group = 128, .zero_points = true};
  for (const int64_t rows : {1, 9}) {
    Compare(shape, {}, rows, dtype(), true, false);
    Compare(shape, {}, rows, DType::kF32, true, false);
    Compare(shape, {}, rows, DType::kF32, true, true);
    Compare(shape, {.out_begin = 17, .out_end = 70}, rows, DType::kF32);
    Compare(shape, {.in_begin = 128, .in_end = 256}, rows, DType::kF32);
    // A border inside a group: both sides keep its scale.
    Compare(shape, {.in_begin = 64, .in_end = 336}, rows, DType::kF32);
  }
}

// Small whole numbers, the largest of every block 127, stay as they are when they are rounded, and
// their sums are exact in every order: products are those by inputs as they are.
TEST_P(QuantizedTest, SumsOfWholeNumbersAreExact) {
  const auto exact = Make({Device::kReference, "exact", dtype()});
  for (const QuantizedShape& shape :
       {QuantizedShape{.bits = 4, .rows = 33, .cols = 224, .group = 32},
        QuantizedShape{.bits = 4, .rows = 48, .cols = 256, .group = 128, .zero_points = true},
        QuantizedShape{.bits = 8, .rows = 48, .cols = 176, .group = 16},
        QuantizedShape{.bits = 8, .rows = 33, .cols = 256, .group = 64, .zero_point = 3}}) {
    SCOPED_TRACE(testing::Message()
                 << shape.bits << " bits, " << shape.rows << " x " << shape.cols);
    const RandomQuantized random(shape);
    QuantizedTensor weight = random.tensor();
    const std::vector<float> scales(static_cast<size_t>(shape.rows * weight.groups()), 0.5f);
    weight.scales = scales.data();
    for (const int64_t rows : {1, 3, 4, 8, 21}) {
      std::vector<TestMatrix> results;
      for (Backend* backend : {backend_.get(), exact.get()}) {
        TestMatrix x(dtype(), rows, shape.cols);
        for (int64_t i = 0; i < rows * shape.cols; ++i) {
          const bool first = i % shape.cols % 16 == 0;
          StoreElement(x.view().data, dtype(), i,
                       first ? 127.0f : static_cast<float>(i * 37 % 255 - 127));
        }
        results.emplace_back(DType::kF32, rows, shape.rows);
        backend->MatMul(**backend->PackQuantized(weight, {}), x.view(), results.back().view(), {});
      }
      for (int64_t row = 0; row < rows; ++row) {
        EXPECT_EQ(results[0].bits(row), results[1].bits(row)) << rows << " rows, row " << row;
      }
    }
  }
}

// An input is off by at most half of its block's unit, which is the largest magnitude / 127.
TEST_P(QuantizedTest, RoundingInputsIsBoundedByTheirBlocks) {
  const auto exact = Make({Device::kReference, "exact", dtype()});
  for (const int64_t group : {16, 32, 128}) {
    const QuantizedShape shape = {.bits = 4, .rows = 40, .cols = 512, .group = group};
    const RandomQuantized weight(shape);
    TestMatrix x = TestMatrix::Random(dtype(), 3, shape.cols, 3);
    TestMatrix rounded(DType::kF32, 3, shape.rows);
    TestMatrix plain(DType::kF32, 3, shape.rows);
    backend_->MatMul(**backend_->PackQuantized(weight.tensor(), {}), x.view(), rounded.view(), {});
    exact->MatMul(**exact->PackQuantized(weight.tensor(), {}), x.view(), plain.view(), {});
    const int64_t block = InputBlock(group);
    double worst = 0;
    for (int64_t row = 0; row < 3; ++row) {
      for (int64_t n = 0; n < shape.rows; ++n) {
        double bound = 1e-5;
        for (int64_t begin = 0; begin < shape.cols; begin += block) {
          double largest = 0;
          double weights = 0;
          for (int64_t k = begin; k < begin + block; ++k) {
            largest = std::max<double>(largest, std::abs(x.at(row, k)));
            weights += std::abs(weight.tensor().at(n, k));
          }
          bound += largest / 254 * weights;
        }
        const double error = std::abs(rounded.at(row, n) - plain.at(row, n));
        EXPECT_LE(error, bound) << "row " << row << ", output " << n;
        worst = std::max(worst, error);
      }
    }
    EXPECT_GT(worst, 0) << "nothing was rounded";
  }
}

// What is no number in one input is none in any output of its row, and in no other row.
TEST_P(QuantizedTest, InfinitiesAndNanReachEveryOutputOfTheirRow) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const int bits : {4, 8}) {
    for (const int64_t group : {16, 32, 128}) {
      const QuantizedShape shape = {.bits = bits,
                                    .rows = 33,
                                    .cols = 272,
                                    .group = group,
                                    .zero_points = true,
                                    .scale_dtype = DType::kF32,
                                    .minimums = true};
      const RandomQuantized weight(shape);
      const auto packed = backend_->PackQuantized(weight.tensor(), {});
      for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
        for (const int64_t column : {0, 100, 271}) {
          TestMatrix x = TestMatrix::Random(dtype(), 6, shape.cols, 3);
          StoreElement(x.rows(2, 1).data, dtype(), column, bad);
          TestMatrix out(DType::kF32, 6, shape.rows);
          backend_->MatMul(**packed, x.view(), out.view(), {});
          for (int64_t row = 0; row < 6; ++row) {
            for (int64_t n = 0; n < shape.rows; ++n) {
              ASSERT_EQ(std::isfinite(out.at(row, n)), row != 2)
                  << bad << " in column " << column << ", row " << row << ", output " << n;
            }
          }
        }
      }
    }
  }
}

// Magnitudes near the ends of fp32: the reference's bits, and those below 2^-119 count as zeros.
TEST_P(QuantizedTest, InputsOfEveryMagnitudeHaveTheReferencesBits) {
  for (const int bits : {4, 8}) {
    const RandomQuantized weight({.bits = bits, .rows = 40, .cols = 256, .group = 64});
    const auto packed = backend_->PackQuantized(weight.tensor(), {});
    const auto expected_weight = reference_->PackQuantized(weight.tensor(), {});
    for (const int exponent : {-149, -140, -126, -120, -119, -118, -60, 0, 60, 110, 126}) {
      const float factor = std::ldexp(1.0f, exponent);
      const TestMatrix plain = TestMatrix::Random(dtype(), 5, 256, 3);
      TestMatrix x(dtype(), 5, 256);
      for (int64_t i = 0; i < 5 * 256; ++i) {
        const auto value = static_cast<float>(plain.at(i / 256, i % 256));
        // At most 1, so that nothing becomes infinite.
        StoreElement(x.view().data, dtype(), i, std::clamp(value / 4, -1.0f, 1.0f) * factor);
      }
      TestMatrix out(DType::kF32, 5, 40);
      TestMatrix expected(DType::kF32, 5, 40);
      backend_->MatMul(**packed, x.view(), out.view(), {});
      reference_->MatMul(**expected_weight, x.view(), expected.view(), {});
      for (int64_t row = 0; row < 5; ++row) {
        EXPECT_EQ(out.bits(row), expected.bits(row)) << "2^" << exponent << ", row " << row;
        for (int64_t n = 0; n < 40; ++n) {
          // Between these a block may be either.
          const bool zero = exponent < -119 || (exponent < -60 && out.at(row, n) == 0);
          EXPECT_EQ(out.at(row, n) == 0, zero) << "2^" << exponent;
        }
      }
    }
  }
}

TEST_P(QuantizedTest, RefusesBordersThatNoKernelTakes) {
  const RandomQuantized weight({.rows = 16, .cols = 96, .group = 32});
  for (Backend* backend : {backend_.get(), reference_.get()}) {
    const auto inside = backend->PackQuantized(weight.tensor(), {.in_begin = 8});
    EXPECT_EQ(inside.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(inside.status().message()),
                AllOf(HasSubstr("columns [8, 96)"), HasSubstr("groups of 32"), HasSubstr("16")));
    const auto outside = backend->PackQuantized(weight.tensor(), {.out_end = 17});
    EXPECT_THAT(std::string(outside.status().message()), HasSubstr("16 x 96"));
    const RandomQuantized shuffled({.rows = 16, .cols = 96, .shuffled = true});
    const auto part = backend->PackQuantized(shuffled.tensor(), {.in_begin = 32});
    EXPECT_THAT(std::string(part.status().message()), HasSubstr("order"));
    QuantizedTensor odd = weight.tensor();
    odd.bits = 3;
    EXPECT_THAT(std::string(backend->PackQuantized(odd, {}).status().message()),
                HasSubstr("3 bits"));
  }
}

TEST_P(QuantizedTest, TakesTheRoomOfItsBits) {
  for (const int bits : {4, 8}) {
    const RandomQuantized weight({.bits = bits, .rows = 64, .cols = 1024, .group = 128});
    const auto packed = backend_->PackQuantized(weight.tensor(), {});
    ASSERT_TRUE(packed.ok()) << packed.status();
    EXPECT_EQ((*packed)->bytes(), static_cast<size_t>(64 * 1024 * bits / 8 + 64 * 8 * 2));
  }
}

TEST_P(QuantizedTest, RowsDoNotDependOnTheOtherRowsOrThreads) {
  constexpr int64_t kRows = 300;
  for (const QuantizedShape& shape :
       {QuantizedShape{.bits = 4, .rows = 200, .cols = 512, .group = 128},
        QuantizedShape{.bits = 8, .rows = 64, .cols = 1100, .group = 1100},
        QuantizedShape{.bits = 4, .rows = 33, .cols = 288, .group = 32, .zero_points = true},
        QuantizedShape{.bits = 8, .rows = 48, .cols = 256, .group = 64, .zero_points = true},
        QuantizedShape{.bits = 4,
        .rows = 40,
        .cols = 176,
        .group = 16,
        .scale_dtype = DType::kF32,
        .minimums = true,
        .zero_point = -8}}) {
    SCOPED_TRACE(testing::Message()
                 << shape.bits << " bits, " << shape.rows << " x " << shape.cols);
    const RandomQuantized weight(shape);
    TestMatrix x = TestMatrix::Random(dtype(), kRows, shape.cols, 3);
    TestMatrix alone(DType::kF32, kRows, shape.rows);
    const auto one = WithThreads(1);
    const auto one_weight = one->PackQuantized(weight.tensor(), {});
    for (int64_t row = 0; row < kRows; ++row) {
      one->MatMul(**one_weight, x.rows(row, 1), alone.rows(row, 1), {});
    }
    for (const int threads : {1, 2, 5}) {
      const auto backend = WithThreads(threads);
      const auto packed = backend->PackQuantized(weight.tensor(), {});
      for (const int64_t count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 17, 96, 97, 295}) {
        TestMatrix batch(DType::kF32, kRows, shape.rows);
        const int64_t first = std::min<int64_t>(kRows - count, 5);
        backend->MatMul(**packed, x.rows(first, count), batch.rows(first, count), {});
        for (int64_t row = first; row < first + count; ++row) {
          ASSERT_EQ(batch.bits(row), alone.bits(row))
              << threads << " threads, " << count << " rows, row " << row;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, QuantizedTest, testing::ValuesIn(CpuWays()), WayName);

}  // namespace
}  // namespace baton::kernels
