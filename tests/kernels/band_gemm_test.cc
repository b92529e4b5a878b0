// What the products by bands compute, sum by sum. That rows keep their bits in every batch, on
// every number of threads and in every share of the columns is in invariance_test.cc.
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "kernels/cpu/isa.h"
#include "tests/kernels/kernel_fixture.h"

namespace baton::kernels {
namespace {

class BandGemmTest : public testing::TestWithParam<Way> {};

// Of AMX and of avx512_bf16, those that the machine has.
std::vector<Way> BandWays() {
  std::vector<Way> ways = CpuWays();
  std::erase_if(ways, [](const Way& way) { return way.isa == "avx2" || way.isa == "avx512"; });
  return ways;
}

// As amx_tiles.h has it: 32 elements of a row at a time, the sums of even and of odd places apart.
float TilesProduct(const TestMatrix& x, int64_t row, const TestMatrix& weight, int64_t out) {
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

// As VDPBF16PS has it: pair after pair, of each the second product first.
float PairsProduct(const TestMatrix& x, int64_t row, const TestMatrix& weight, int64_t out) {
  float sum = 0;
  for (int64_t k = 0; k < x.cols(); k += 2) {
    if (k + 1 < x.cols()) sum += x.at(row, k + 1) * weight.at(out, k + 1);
    sum += x.at(row, k) * weight.at(out, k);
  }
  return sum;
}

float Product(const TestMatrix& x, int64_t row, const TestMatrix& weight, int64_t out) {
  const bool tiles = BandGemmTest::GetParam().isa == "amx";
  return tiles ? TilesProduct(x, row, weight, out) : PairsProduct(x, row, weight, out);
}

TEST_P(BandGemmTest, EverySumIsTakenInTheOrderThatIsSaid) {
  const auto backend = Make(GetParam());
  struct Case {
    int64_t rows;
    int64_t out;
    int64_t in;
  };
  // Long rows, many rows, and both beyond what is held in a cache at once.
  for (const Case& c : {Case{1, 40, 64}, Case{5, 33, 77}, Case{48, 70, 5003}, Case{97, 48, 9000},
                        Case{8, 300, 4096}, Case{530, 34, 640}, Case{261, 600, 1024}}) {
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

TEST_P(BandGemmTest, EpiloguesAddTheBiasThenWhatWasThere) {
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

TEST_P(BandGemmTest, EveryNumberOfRowsGivesTheSameBitsWithEveryEpilogue) {
  const auto backend = Make(GetParam());
  constexpr int64_t kMost = 70;
  for (const auto& [out, in] : {std::pair{47, 99}, std::pair{96, 128}, std::pair{259, 32}}) {
    const TestMatrix weight = TestMatrix::Random(DType::kBF16, out, in, 1, 0.2f);
    const TestMatrix bias_values = TestMatrix::Random(DType::kF32, 1, out, 2);
    const auto bias = backend->UploadVector(bias_values.tensor());
    const auto packed = backend->Pack(weight.tensor(), {});
    TestMatrix x = TestMatrix::Random(DType::kBF16, kMost, in, 3);
    for (const DType out_dtype : {DType::kBF16, DType::kF32}) {
      for (const bool with_bias : {false, true}) {
        for (const bool accumulate : {false, out_dtype == DType::kF32}) {
          const TestMatrix start = TestMatrix::Random(out_dtype, kMost, out, 4);
          const MatMulEpilogue epilogue{.bias = with_bias ? bias->get() : nullptr,
                                        .accumulate = accumulate};
          TestMatrix alone = start.Copy();
          for (int64_t row = 0; row < kMost; ++row) {
            backend->MatMul(**packed, x.rows(row, 1), alone.rows(row, 1), epilogue);
          }
          for (int64_t count = 1; count <= kMost; ++count) {
            TestMatrix batch = start.Copy();
            backend->MatMul(**packed, x.rows(0, count), batch.rows(0, count), epilogue);
            for (int64_t row = 0; row < kMost; ++row) {
              ASSERT_EQ(batch.bits(row), row < count ? alone.bits(row) : start.bits(row))
                  << out << " x " << in << ", row " << row << " of " << count << ", bias "
                  << with_bias << ", accumulate " << accumulate;
            }
          }
        }
      }
    }
  }
}

// What is no number in one row is none in any output of that row, and in no other row.
TEST_P(BandGemmTest, InfinitiesAndNanStayInTheirRow) {
  const auto backend = Make(GetParam());
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const TestMatrix weight = TestMatrix::Random(DType::kBF16, 70, 77, 1);
  const auto packed = backend->Pack(weight.tensor(), {});
  for (const int64_t rows : {3, 20, 40}) {
    for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
      for (const int64_t column : {0, 40, 76}) {
        TestMatrix x = TestMatrix::Random(DType::kBF16, rows, 77, 3);
        TestMatrix without(DType::kF32, rows, 70);
        backend->MatMul(**packed, x.view(), without.view(), {});
        StoreElement(x.data(), DType::kBF16, 2 * 77 + column, bad);
        TestMatrix out(DType::kF32, rows, 70);
        backend->MatMul(**packed, x.view(), out.view(), {});
        for (int64_t row = 0; row < rows; ++row) {
          if (row != 2) {
            ASSERT_EQ(out.bits(row), without.bits(row)) << bad << ", row " << row << " of " << rows;
            continue;
          }
          for (int64_t n = 0; n < 70; ++n) ASSERT_FALSE(std::isfinite(out.at(2, n))) << bad << n;
        }
      }
    }
  }
}

TEST_P(BandGemmTest, DenormalsCountAsZeros) {
  const auto backend = Make(GetParam());
  constexpr float kDenormal = 0x1.0p-127f;  // which bfloat16 has
  constexpr float kSmallest = 0x1.0p-126f;  // that is none
  for (const int64_t rows : {1, 20}) {
    for (const auto& [input, element, sum] :
         {std::tuple{kDenormal, 0x1.0p100f, 0.0f}, std::tuple{0x1.0p100f, kDenormal, 0.0f},
          std::tuple{0x1.0p-70f, 0x1.0p-60f, 0.0f}, std::tuple{kSmallest, 1.0f, 32 * kSmallest}}) {
      TestMatrix weight(DType::kBF16, 40, 32);
      TestMatrix x(DType::kBF16, rows, 32);
      for (int64_t i = 0; i < 40 * 32; ++i) StoreElement(weight.data(), DType::kBF16, i, element);
      for (int64_t i = 0; i < rows * 32; ++i) StoreElement(x.data(), DType::kBF16, i, input);
      TestMatrix out(DType::kF32, rows, 40);
      backend->MatMul(**backend->Pack(weight.tensor(), {}), x.view(), out.view(), {});
      for (int64_t i = 0; i < rows * 40; ++i) {
        ASSERT_EQ(out.at(i / 40, i % 40), sum) << input << " times " << element;
      }
    }
  }
}

TEST_P(BandGemmTest, RowsOfAWeightComeBackAsTheyWerePacked) {
  const auto backend = Make(GetParam());
  const TestMatrix weight = TestMatrix::Random(DType::kBF16, 70, 77, 1);
  const auto packed = backend->Pack(weight.tensor(), {});
  ASSERT_TRUE(packed.ok()) << packed.status();
  std::vector<std::byte> arena(size_t{1} << 20);
  const std::vector<int32_t> tokens = {0, 15, 16, 31, 32, 69};
  const std::vector<int32_t> positions = {0, 1, 2, 3, 4, 5};
  const std::vector<int32_t> blocks = {0};
  const std::vector<StepLayout::Sequence> sequences = {{0, 6, 6, blocks}};
  const PagedKv kv{.arena = arena.data(),
                   .layout = {.block_size = 16, .layers = 1, .kv_heads = 1, .head_dim = 8},
                   .num_blocks = 1};
  const std::vector<int32_t> sampled = {5};
  ASSERT_TRUE(backend
                  ->BeginStep({.tokens = tokens,
                               .positions = positions,
                               .sequences = sequences,
                               .sample_rows = sampled},
                              kv)
                  .ok());
  TestMatrix out(DType::kF32, 6, 77);
  backend->EmbedFromPacked(**packed, out.view());
  ASSERT_TRUE(backend->EndStep().ok());
  for (int64_t i = 0; i < 6; ++i) {
    for (int64_t k = 0; k < 77; ++k) ASSERT_EQ(out.at(i, k), weight.at(tokens[i], k)) << i << k;
  }
}

// Without a machine for them BandGemmTest has nothing to try, which must not hide that there is
// one.
TEST(BandWaysTest, AreThereWhereTheMachineHasThem) {
  const bool pairs = __builtin_cpu_supports("avx512bf16") != 0;
  EXPECT_EQ(BandWays().size(), (pairs ? 1 : 0) + (cpu::MayUseAmx() ? 1 : 0));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BandGemmTest);
INSTANTIATE_TEST_SUITE_P(Cpu, BandGemmTest, testing::ValuesIn(BandWays()), WayName);

}  // namespace
}  // namespace baton::kernels
