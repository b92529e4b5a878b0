// Products of e4m3 on the device: codes and scales equal the reference's to the bit; products equal
// the sums over those codes up to the rounding of the output and the device's fp32 sums.
#include <vector>

#include "kernels/cuda/cta/fp8_math.h"
#include "kernels/cuda/device/runtime.h"
#include "kernels/cuda/gemm/fp8.h"
#include "kernels/cuda/gemm/fp8_products.h"
#include "kernels/reference/fp8.h"
#include "tests/kernels/cuda/device_fixture.h"

namespace baton::kernels {
namespace {

class CudaFp8Test : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    auto backend = MakeBackend(
        {.device = Device::kCuda, .compute_dtype = dtype(), .quantization = Quantization::kFp8});
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = std::move(backend).value();
  }
  DType dtype() const { return GetParam(); }

  struct Quantized {
    std::vector<uint8_t> codes;
    std::vector<float> scales;
  };
  static Quantized Reference(std::vector<float>& values, int64_t rows, int64_t cols) {
    Quantized quantized;
    quantized.codes.resize(values.size());
    quantized.scales.resize(static_cast<size_t>(rows));
    QuantizeRows(Matrix::Dense(values.data(), DType::kF32, rows, cols), quantized.codes,
                 quantized.scales);
    return quantized;
  }

  std::unique_ptr<Backend> backend_;
};

TEST_P(CudaFp8Test, RowsAreQuantizedAsByTheReference) {
  for (const int64_t cols : {16, 77, 1024, 4096, 14336}) {
    SCOPED_TRACE(cols);
    constexpr int64_t kRows = 9;
    std::vector<float> values = ExactValues(kRows * cols, 3);
    std::fill_n(values.begin() + 2 * cols, cols, 0.0F);
    const DeviceMatrix in(*backend_, dtype(), kRows, cols, values);
    const auto codes = backend_->Allocate(static_cast<size_t>(kRows * cols));
    const auto scales = backend_->Allocate(kRows * sizeof(float));
    ASSERT_TRUE(codes.ok() && scales.ok());
    // On the default stream, behind which Download waits for the whole device.
    ASSERT_EQ(cuda::LaunchQuantizeRows(in.view(), (*codes)->data(),
                                       static_cast<float*>((*scales)->data()), nullptr),
              0);
    ASSERT_TRUE(cuda::WaitFor(nullptr).ok());
    Quantized actual;
    actual.codes.resize(values.size());
    actual.scales.resize(kRows);
    ASSERT_TRUE(
        backend_->Download((*codes)->data(), actual.codes.size(), actual.codes.data()).ok());
    ASSERT_TRUE(
        backend_->Download((*scales)->data(), kRows * sizeof(float), actual.scales.data()).ok());
    const Quantized expected = Reference(values, kRows, cols);
    EXPECT_EQ(actual.scales, expected.scales);
    EXPECT_EQ(actual.codes, expected.codes);
  }
}

TEST_P(CudaFp8Test, ProductsEqualSumsOverTheCodes) {
  struct Case {
    int64_t rows, out, in;
    DType out_dtype;
    bool bias, accumulate;
  };
  const std::vector<Case> cases = {{1, 64, 256, dtype(), false, false},
                                   {3, 48, 128, DType::kF32, false, true},
                                   {17, 160, 512, dtype(), true, false},
                                   {64, 256, 1024, DType::kF32, true, true},
                                   {200, 512, 2048, DType::kF32, false, true}};
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << c.rows << " rows, " << c.out << " x " << c.in);
    std::vector<float> weight = ExactValues(c.out * c.in, 1);
    std::vector<float> bias = ExactValues(c.out, 2);
    std::vector<float> x = ExactValues(c.rows * c.in, 3);
    std::vector<float> expected = ExactValues(c.rows * c.out, 4);
    const DeviceMatrix in(*backend_, dtype(), c.rows, c.in, x);
    const DeviceMatrix out(*backend_, c.out_dtype, c.rows, c.out, expected);
    const auto packed = backend_->Pack({weight.data(), DType::kF32, c.out, c.in}, {});
    ASSERT_TRUE(packed.ok()) << packed.status();
    EXPECT_EQ((*packed)->bytes(), static_cast<size_t>(c.out * c.in + 4 * c.out));
    const auto vector = backend_->UploadVector({bias.data(), DType::kF32, 1, c.out});
    ASSERT_TRUE(vector.ok()) << vector.status();
    backend_->MatMul(**packed, in.view(), out.view(),
                     {.bias = c.bias ? vector->get() : nullptr, .accumulate = c.accumulate});
    const absl::Status ended = backend_->EndStep();
    ASSERT_TRUE(ended.ok()) << ended;
    const Quantized a = Reference(x, c.rows, c.in);
    const Quantized b = Reference(weight, c.out, c.in);
    for (int64_t row = 0; row < c.rows; ++row) {
      for (int64_t col = 0; col < c.out; ++col) {
        float& value = expected[static_cast<size_t>(row * c.out + col)];
        const double sum = DotQuantized(
            &a.codes[static_cast<size_t>(row * c.in)], a.scales[static_cast<size_t>(row)],
            &b.codes[static_cast<size_t>(col * c.in)], b.scales[static_cast<size_t>(col)], c.in);
        value = static_cast<float>(sum + (c.accumulate ? value : 0) +
                                   (c.bias ? bias[static_cast<size_t>(col)] : 0));
      }
    }
    // The product is rounded to 16 bits before the rest is added.
    ExpectValues(out.Values(), expected, 2 * DeviceTolerance(dtype()),
                 1 + std::sqrt(static_cast<double>(c.in)));
  }
}

// Of a checkpoint that is of e4m3 already: its codes, its scales, and its scale of the inputs.
TEST_P(CudaFp8Test, ProductsByCodesThatWereStoredEqualSumsOverThem) {
  constexpr int64_t kRows = 7;
  constexpr int64_t kOut = 96;
  constexpr int64_t kIn = 256;
  std::vector<float> weight = ExactValues(kOut * kIn, 1);
  std::vector<float> x = ExactValues(kRows * kIn, 3);
  const Quantized b = Reference(weight, kOut, kIn);
  // All of it, and the share of one of two ranks in its rows and in its columns.
  const std::vector<Shard> shards = {
      {0, kOut, 0, kIn}, {kOut / 2, kOut, 0, kIn}, {0, kOut, kIn / 2, kIn}};
  for (const float input_scale : {0.0F, 0.05F}) {
    for (const Shard& shard : shards) {
      const int64_t out_rows = shard.out_end - shard.out_begin;
      const int64_t width = shard.in_end - shard.in_begin;
      const HostTensor stored = {.data = b.codes.data(),
                                 .dtype = DType::kFp8,
                                 .rows = kOut,
                                 .cols = kIn,
                                 .row_scales = b.scales.data(),
                                 .input_scale = input_scale};
      const auto packed = backend_->Pack(stored, shard);
      ASSERT_TRUE(packed.ok()) << packed.status();
      std::vector<float> part(static_cast<size_t>(kRows * width));
      for (int64_t row = 0; row < kRows; ++row) {
        std::copy_n(x.begin() + row * kIn + shard.in_begin, width, part.begin() + row * width);
      }
      Quantized a = Reference(part, kRows, width);
      if (input_scale > 0) {
        for (size_t i = 0; i < part.size(); ++i) {
          a.codes[i] = cuda::QuantizeBy(part[i], input_scale);
        }
        a.scales.assign(kRows, input_scale);
      }
      const DeviceMatrix in_part(*backend_, dtype(), kRows, width, part);
      const DeviceMatrix out(*backend_, dtype(), kRows, out_rows);
      backend_->MatMul(**packed, in_part.view(), out.view(), {});
      ASSERT_TRUE(backend_->EndStep().ok());
      std::vector<float> expected;
      for (int64_t row = 0; row < kRows; ++row) {
        for (int64_t col = shard.out_begin; col < shard.out_end; ++col) {
          expected.push_back(static_cast<float>(DotQuantized(
              &a.codes[static_cast<size_t>(row * width)], a.scales[static_cast<size_t>(row)],
              &b.codes[static_cast<size_t>(col * kIn + shard.in_begin)],
              b.scales[static_cast<size_t>(col)], width)));
        }
      }
      ExpectValues(out.Values(), expected, 2 * DeviceTolerance(dtype()),
                   1 + std::sqrt(static_cast<double>(width)));
    }
  }
}

// As where the library has no algorithm for the rung of so few rows.
TEST_P(CudaFp8Test, RowsThatArePaddedToALargerRungGiveTheSameProducts) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kOut = 96;
  constexpr int64_t kIn = 256;
  const std::vector<float> weight = ExactValues(kOut * kIn, 1);
  const DeviceMatrix in(*backend_, dtype(), kRows, kIn, ExactValues(kRows * kIn, 3));
  const auto packed = backend_->Pack({weight.data(), DType::kF32, kOut, kIn}, {});
  const auto matmul = cuda::MatMul::Create(dtype(), nullptr);
  ASSERT_TRUE(packed.ok() && matmul.ok()) << packed.status() << matmul.status();
  cuda::Fp8Products products(dtype(), nullptr);
  const auto multiply = [&](int64_t rung, const DeviceMatrix& out, bool accumulate) {
    EXPECT_TRUE(products.Reserve(rung, kIn, kOut).ok());
    const absl::Status ran = products.Run(**matmul, cuda::OnDevice(**packed), rung, in.view(),
                                          out.view(), nullptr, accumulate);
    EXPECT_TRUE(ran.ok()) << ran;
    EXPECT_TRUE(cuda::WaitFor(nullptr).ok());
    return out.Values();
  };
  const std::vector<float> start(kRows * kOut, 1.0F);
  for (const bool accumulate : {false, true}) {
    const DType out_dtype = accumulate ? DType::kF32 : dtype();
    const DeviceMatrix own(*backend_, out_dtype, kRows, kOut, start);
    const DeviceMatrix padded(*backend_, out_dtype, kRows, kOut, start);
    ExpectValues(multiply(64, padded, accumulate), multiply(4, own, accumulate),
                 2 * DeviceTolerance(dtype()), 1 + std::sqrt(static_cast<double>(kIn)));
  }
}

TEST_P(CudaFp8Test, WeightsThatAskForItKeepTheirPrecision) {
  std::vector<float> weight = ExactValues(32 * 64, 1);
  const auto kept =
      backend_->Pack({.data = weight.data(), .rows = 32, .cols = 64, .keep_precision = true}, {});
  const auto odd = backend_->Pack({.data = weight.data(), .rows = 20, .cols = 100}, {});
  ASSERT_TRUE(kept.ok() && odd.ok());
  EXPECT_EQ((*kept)->bytes(), 32U * 64 * 2);
  EXPECT_EQ((*odd)->bytes(), 20U * 100 * 2) << "rows and columns are multiples of 16 in fp8";
}

TEST(CudaFp8RefusalTest, Float32IsRefused) {
  const auto backend = MakeBackend(
      {.device = Device::kCuda, .compute_dtype = DType::kF32, .quantization = Quantization::kFp8});
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kOutOfRange);
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaFp8Test, testing::Values(DType::kBF16, DType::kF16), DTypeName);

}  // namespace
}  // namespace baton::kernels
