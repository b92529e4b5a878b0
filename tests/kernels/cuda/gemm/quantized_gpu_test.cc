// Products by small integers on the device: the bits that the same algorithm gives on the host for
// few rows, and the reference's products up to rounding for all.
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cuda/gemm/quantized.h"
#include "tests/kernels/cuda/device_fixture.h"
#include "tests/kernels/cuda/gemm/emulated_integers.h"

namespace baton::kernels {
namespace {

class CudaQuantizedTest : public CudaAndReferenceTest {
 protected:
  // The product of `rows` rows by a part of the weight, on the device and by the reference.
  void Compare(const QuantizedShape& shape, const Shard& shard, int64_t rows, DType out_dtype,
               bool bias = false, bool accumulate = false) {
    SCOPED_TRACE(testing::Message()
                 << rows << " rows, " << shape.rows << " x " << shape.cols << " of " << shape.bits
                 << " bits in groups of " << shape.group);
    const RandomQuantized weight(shape);
    const auto packed = backend_->PackQuantized(weight.tensor(), shard);
    const auto host = reference_->PackQuantized(weight.tensor(), shard);
    ASSERT_TRUE(packed.ok() && host.ok()) << packed.status() << host.status();
    EXPECT_TRUE((*packed)->quantized());
    const int64_t in_cols = (*packed)->in();
    const int64_t out_cols = (*packed)->out();
    std::vector<float> x = ExactValues(rows * in_cols, 3);
    std::vector<float> expected = ExactValues(rows * out_cols, 4);
    const std::vector<float> added = ExactValues(out_cols, 2);
    const DeviceMatrix in(*backend_, dtype(), rows, in_cols, x);
    const DeviceMatrix out(*backend_, out_dtype, rows, out_cols, expected);
    const auto vector = backend_->UploadVector({added.data(), DType::kF32, 1, out_cols});
    const auto host_vector = reference_->UploadVector({added.data(), DType::kF32, 1, out_cols});
    ASSERT_TRUE(vector.ok() && host_vector.ok());
    backend_->MatMul(**packed, in.view(), out.view(),
                     {.bias = bias ? vector->get() : nullptr, .accumulate = accumulate});
    const absl::Status ended = backend_->EndStep();
    ASSERT_TRUE(ended.ok()) << ended;
    reference_->MatMul(**host, HostMatrix(x, in_cols), HostMatrix(expected, out_cols),
                       {.bias = bias ? host_vector->get() : nullptr, .accumulate = accumulate});
    // For many rows the weight is rounded to the compute dtype as well.
    ExpectValues(out.Values(), expected, 2 * DeviceTolerance(dtype()),
                 1 + std::sqrt(static_cast<double>(in_cols)));
  }
};

TEST_P(CudaQuantizedTest, ProductsEqualTheReferenceForEveryNumberOfRows) {
  for (const int bits : {4, 8}) {
    for (const int64_t rows : {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 24, 33, 64, 200}) {
      Compare({.bits = bits, .rows = 80, .cols = 1312, .group = 32, .zero_points = rows % 2 == 0},
              {}, rows, dtype());
    }
  }
}

TEST_P(CudaQuantizedTest, ProductsEqualTheReferenceForEveryKindOfWeight) {
  for (const int bits : {4, 8}) {
    for (const int64_t rows : {3, 40}) {
      for (const int64_t group : {16, 64, 128, 1024}) {
        Compare({.bits = bits, .rows = 64, .cols = 1024, .group = group, .zero_points = true}, {},
                rows, DType::kF32);
      }
      for (const DType scale : {DType::kF32, DType::kF16}) {
        Compare({.bits = bits,
                 .rows = 48,
                 .cols = 512,
                 .scale_dtype = scale,
                 .minimums = true,
                 .zero_point = -3},
                {}, rows, DType::kF32);
      }
      Compare({.bits = bits,
               .rows = 64,
               .cols = 512,
               .group = 128,
               .zero_points = true,
               .shuffled = true},
              {}, rows, DType::kF32);
    }
    // Rows whose runs do not lie on 16 bytes; cuBLASLt is not asked for such.
    Compare({.bits = bits, .rows = 40, .cols = 77, .group = 77}, {}, 5, DType::kF32);
  }
}

TEST_P(CudaQuantizedTest, EpiloguesAndShards) {
  const QuantizedShape shape = {
      .bits = 4, .rows = 96, .cols = 768, .group = 128, .zero_points = true};
  for (const int64_t rows : {1, 16, 40}) {
    Compare(shape, {}, rows, dtype(), true, false);
    Compare(shape, {}, rows, DType::kF32, true, true);
    Compare(shape, {.out_begin = 16, .out_end = 80}, rows, DType::kF32);
    Compare(shape, {.in_begin = 64, .in_end = 576}, rows, DType::kF32);
  }
}

// All steps are single roundings, so the device gives the bits of the host, and a row its own
// beside any others.
TEST(CudaQuantizedBitsTest, FewRowsHaveTheBitsOfTheHost) {
  const auto backend = MakeCuda(DType::kBF16);
  ASSERT_NE(backend, nullptr);
  constexpr int64_t kCols = 2240;
  constexpr int64_t kOut = 50;
  for (const int bits : {4, 8}) {
    const RandomQuantized random({.bits = bits,
                                  .rows = kOut,
                                  .cols = kCols,
                                  .group = 64,
                                  .zero_points = true,
                                  .minimums = true});
    const auto packed = backend->PackQuantized(random.tensor(), {});
    ASSERT_TRUE(packed.ok()) << packed.status();
    const cuda::EmulatedIntegers emulated(random.tensor(), {});
    EXPECT_EQ((*packed)->bytes(), emulated.bytes());
    for (const int rows : {1, 2, 4, 7, 16}) {
      const std::vector<float> x = ExactValues(rows * kCols, 3);
      const DeviceMatrix in(*backend, DType::kBF16, rows, kCols, x);
      const DeviceMatrix out(*backend, DType::kF32, rows, kOut);
      backend->MatMul(**packed, in.view(), out.view(), {});
      ASSERT_TRUE(backend->EndStep().ok());
      std::vector<float> expected(static_cast<size_t>(rows * kOut));
      const auto narrow = cuda::Narrowed<cuda::Bf16Bits>(x);
      emulated.Multiply<cuda::Bf16Bits>(
          {.rows = rows, .in = narrow.data(), .out_floats = expected.data()},
          cuda::HostCta::Order::kForward, /*scalar=*/true);
      EXPECT_EQ(out.Values(), expected) << bits << " bits, " << rows << " rows";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaQuantizedTest,
                         testing::Values(DType::kF32, DType::kBF16, DType::kF16), DTypeName);

}  // namespace
}  // namespace baton::kernels
