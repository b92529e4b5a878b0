// The kernels of products by small integers, each that the machine can run and not only the one
// that a backend takes: all have the bits of the scalar reference.
#include <vector>

#include "kernels/cpu/quantized_gemm.h"
#include "tests/kernels/kernel_fixture.h"
#include "tests/kernels/quantized_fixture.h"

namespace baton::kernels {
namespace {

// Every kernel that this machine can run, of which a backend takes one.
std::vector<cpu::QuantizedKernel> Kernels() {
  std::vector<cpu::QuantizedKernel> kernels = {cpu::QuantizedKernelOf(cpu::Isa::kAvx2, false)};
  if (MachineHas({Device::kCpu, "avx512", DType::kF32})) {
    kernels.push_back(cpu::QuantizedKernelOf(cpu::Isa::kAvx512, false));
    if (cpu::HasVnni()) kernels.push_back(cpu::QuantizedKernelOf(cpu::Isa::kAvx512, true));
  }
  return kernels;
}

TEST(QuantizedKernelTest, EveryInstructionSetHasTheReferencesBits) {
  const std::vector<cpu::QuantizedKernel> kernels = Kernels();
  const auto reference = Make({Device::kReference, "auto", DType::kF32});
  for (const int bits : {4, 8}) {
    for (const int64_t group : {16, 32, 64, 128}) {
      for (const bool zeros : {false, true}) {
        const QuantizedShape shape = {.bits = bits,
                                      .rows = 100,
                                      .cols = 304,
                                      .group = group,
                                      .zero_points = zeros,
                                      .shuffled = group == 64,
                                      .minimums = group != 128,
                                      .unit_groups = group == 32 ? 5 : 0};
        const RandomQuantized weight(shape);
        for (int64_t rows = 1; rows <= 19; ++rows) {
          TestMatrix x = TestMatrix::Random(DType::kF32, rows, shape.cols, 3);
          TestMatrix expected(DType::kF32, rows, shape.rows);
          reference->MatMul(**reference->PackQuantized(weight.tensor(), {}), x.view(),
                            expected.view(), {});
          for (size_t kernel = 0; kernel < kernels.size(); ++kernel) {
            cpu::QuantizedGemm gemm(kernels[kernel], 2);
            const auto part = ResolveShard(weight.tensor(), {});
            TestMatrix out(DType::kF32, rows, shape.rows);
            gemm.Run(**gemm.Pack(weight.tensor(), *part), x.view(), out.view(), {});
            for (int64_t row = 0; row < rows; ++row) {
              ASSERT_EQ(out.bits(row), expected.bits(row))
                  << "kernel " << kernel << ", " << bits << " bits, groups of " << group << ", "
                  << rows << " rows, row " << row;
            }
          }
        }
      }
    }
  }
}

// The largest codes of weight and inputs everywhere, whose sums are the largest there are.
TEST(QuantizedKernelTest, TheLargestSumsAreExact) {
  constexpr int64_t kCols = 256;
  TestMatrix x(DType::kF32, 1, kCols);
  TestMatrix out(DType::kF32, 1, 16);
  const std::vector<float> scales(16 * kCols / 32, 1.0f);
  const std::vector<cpu::QuantizedKernel> kernels = Kernels();
  for (size_t kernel = 0; kernel < kernels.size(); ++kernel) {
    cpu::QuantizedGemm gemm(kernels[kernel], 2);
    for (const int bits : {4, 8}) {
      const auto code = static_cast<int8_t>((1 << (bits - 1)) - 1);
      const std::vector<int8_t> codes(16 * kCols, code);
      for (const int16_t zero : {int16_t{0}, static_cast<int16_t>(-(1 << (bits - 1)))}) {
        const QuantizedTensor weight = {.bits = bits,
                                        .rows = 16,
                                        .cols = kCols,
                                        .group = 32,
                                        .codes = codes.data(),
                                        .scales = scales.data(),
                                        .zero_point = zero};
        const auto part = ResolveShard(weight, {});
        for (const float sign : {1.0f, -1.0f}) {
          for (int64_t i = 0; i < kCols; ++i) StoreElement(x.data(), DType::kF32, i, sign * 127);
          gemm.Run(**gemm.Pack(weight, *part), x.view(), out.view(), {});
          EXPECT_EQ(out.at(0, 5), sign * 127 * static_cast<float>(kCols * (code - zero)))
              << "kernel " << kernel << ", " << bits << " bits";
        }
      }
    }
  }
}

}  // namespace
}  // namespace baton::kernels
