// AVX-512 with products by panels.
#include <utility>
#include <vector>

#include "kernels/machine_limits.h"
#include "tests/kernels/paged_fixture.h"

namespace baton::kernels {
namespace {

class MixedIsaTest : public testing::TestWithParam<DType> {
 protected:
  static std::unique_ptr<Backend> Of(const std::string& isa) {
    return Make({Device::kCpu, isa, GetParam()});
  }
  static bool HasAvx512() { return MachineHas({Device::kCpu, "avx512", GetParam()}); }
  // AVX-512 where the machine has it.
  static std::unique_ptr<Backend> Mixed() { return Of(HasAvx512() ? "avx512" : "auto"); }
};

TEST_P(MixedIsaTest, ProductsHaveTheBitsOfAvx2) {
  const auto backend = Mixed();
  const auto avx2 = Of("avx2");
  if (!HasAvx512()) {
    EXPECT_EQ(backend->info().isa, "avx2");
    return;
  }
  EXPECT_EQ(backend->info().isa, "avx512");
  EXPECT_EQ(backend->info().matmul, avx2->info().matmul);
  EXPECT_NE(backend->info().numerics(), avx2->info().numerics());

  // Outputs that leave half a pair of panels free, or less, and more than is multiplied at once.
  for (const auto& [out, in] :
       {std::pair<int64_t, int64_t>{40, 64}, {96, 70}, {150, 600}, {31, 1100}}) {
    const TestMatrix weight = TestMatrix::Random(GetParam(), out, in, 1);
    const auto packed = *backend->Pack(weight.tensor(), {});
    const auto packed_avx2 = *avx2->Pack(weight.tensor(), {});
    for (const int64_t rows : {1, 2, 3, 5, 7, 8, 11, 14, 15, 24, 25, 96, 97, 201}) {
      TestMatrix x = TestMatrix::Random(GetParam(), rows, in, 2);
      TestMatrix mixed(DType::kF32, rows, out);
      TestMatrix plain(DType::kF32, rows, out);
      backend->MatMul(*packed, x.view(), mixed.view(), {});
      avx2->MatMul(*packed_avx2, x.view(), plain.view(), {});
      for (int64_t row = 0; row < rows; ++row) {
        EXPECT_EQ(mixed.bits(row), plain.bits(row)) << row << " of " << rows << " x " << in;
      }
    }
  }
}

TEST_P(MixedIsaTest, AttentionEqualsReference) {
  const AttentionShape shape = ShapeOf(4, 2, 64);
  const KvLayout layout = LayoutOf(shape, GetParam());
  const auto backend = Mixed();
  const auto reference = Make({Device::kReference, "auto", GetParam()});
  AttentionRig actual(*backend, shape, layout, {300}, 5);
  AttentionRig expected(*reference, shape, layout, {300}, 5);
  for (AttentionRig* rig : {&actual, &expected}) rig->Step({{0, 0, 300}});
  EXPECT_LE(Distance(actual.out(0).Values(), expected.out(0).Values(), actual.out(0).cols(),
                     Tolerance(GetParam())),
            1);
}

TEST_P(MixedIsaTest, ThePeakIsThatOfTheProducts) {
  EXPECT_GT(MeasureMachineLimits(Mixed()->info(), false).flops_per_s, 0);
}

INSTANTIATE_TEST_SUITE_P(Cpu, MixedIsaTest, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& test) { return std::string(Name(test.param)); });

}  // namespace
}  // namespace baton::kernels
