// What the product by tiles computes, sum by sum. That rows keep their bits in every batch, on
// every number of threads and in every share of the columns is in invariance_test.cc.
#include <vector>

#include "kernels/cpu/isa.h"
#include "tests/kernels/kernel_fixture.h"

namespace baton::kernels {
namespace {

class AmxTest : public testing::TestWithParam<Way> {};

// One, or none on a machine without AMX.
std::vector<Way> AmxWays() {
  std::vector<Way> ways = CpuWays();
  std::erase_if(ways, [](const Way& way) { return way.isa != "amx"; });
  return ways;
}

// As amx_tiles.h has it: 32 elements of a row at a time, the sums of even and of odd places apart.
float Product(const TestMatrix& x, int64_t row, const TestMatrix& weight, int64_t out) {
  float sum = 0;
  for (int64_t first = 0; first < x.cols(); first += 32) {
    float even = 0;
    float odd = 0;
    for (int64_t k = first; k < std::min(first + 32, x.cols()); k += 2) {
      even += x.at(row, k) * weight.at(out, k);
      if (k + 1 < x.cols()) odd += x.at(row, k + 1) * weight.at(out, k + 1);
    }
    sum += even + odd;
  }
  return sum;
}

TEST_P(AmxTest, EverySumIsTakenInTheOrderThatIsSaid) {
  const auto backend = Make(GetParam());
  struct Case {
    int64_t rows;
    int64_t out;
    int64_t in;
  };
  // Long rows, many rows, and both beyond what is held in a cache at once.
  for (const Case& c : {Case{1, 40, 64}, Case{5, 33, 77}, Case{48, 70, 5003}, Case{97, 48, 9000},
                        Case{530, 34, 640}}) {
    SCOPED_TRACE(testing::Message() << c.rows << " rows, " << c.out << " x " << c.in);
    const TestMatrix weight = TestMatrix::Random(DType::kBF16, c.out, c.in, 1, 0.2f);
    TestMatrix x = TestMatrix::Random(DType::kBF16, c.rows, c.in, 2);
    TestMatrix y(DType::kF32, c.rows, c.out);
    const auto packed = backend->Pack(weight.tensor(), {});
    ASSERT_TRUE(packed.ok()) << packed.status();
    backend->MatMul(**packed, x.view(), y.view(), {});
    for (int64_t row = 0; row < c.rows; row += 1 + c.rows / 7) {
      for (int64_t out = 0; out < c.out; ++out) {
        ASSERT_EQ(y.at(row, out), Product(x, row, weight, out)) << row << " " << out;
      }
    }
  }
}

TEST_P(AmxTest, EpiloguesAddTheBiasThenWhatWasThere) {
  const auto backend = Make(GetParam());
  const TestMatrix weight = TestMatrix::Random(DType::kBF16, 50, 96, 1, 0.2f);
  const TestMatrix bias_values = TestMatrix::Random(DType::kF32, 1, 50, 2);
  const auto bias = backend->UploadVector(bias_values.tensor());
  TestMatrix x = TestMatrix::Random(DType::kBF16, 21, 96, 3);
  const TestMatrix start = TestMatrix::Random(DType::kF32, 21, 50, 4);
  TestMatrix added = start.Copy();
  TestMatrix rounded(DType::kBF16, 21, 50);
  const auto packed = backend->Pack(weight.tensor(), {});
  backend->MatMul(**packed, x.view(), added.view(), {.bias = bias->get(), .accumulate = true});
  backend->MatMul(**packed, x.view(), rounded.view(), {.bias = bias->get()});
  for (int64_t row = 0; row < 21; ++row) {
    for (int64_t out = 0; out < 50; ++out) {
      const float biased = Product(x, row, weight, out) + bias_values.at(0, out);
      ASSERT_EQ(added.at(row, out), biased + start.at(row, out)) << row << " " << out;
      ASSERT_EQ(rounded.at(row, out), FloatFromBf16(Bf16FromFloat(biased))) << row << " " << out;
    }
  }
}

// Without tiles AmxTest has nothing to try, which must not hide that a machine has them.
TEST(AmxWaysTest, AreThereWhereTilesMayBeUsed) {
  EXPECT_EQ(AmxWays().size(), cpu::MayUseAmx() ? 1 : 0);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AmxTest);
INSTANTIATE_TEST_SUITE_P(Cpu, AmxTest, testing::ValuesIn(AmxWays()), WayName);

}  // namespace
}  // namespace baton::kernels
