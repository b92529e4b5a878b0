// Every operation of every CPU way against the scalar reference.
#include <vector>

#include "tests/kernels/kernel_fixture.h"

namespace baton::kernels {
namespace {

class OpsTest : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    backend_ = Make(GetParam());
    reference_ = Make({Device::kReference, "auto", GetParam().dtype});
  }
  DType dtype() const { return GetParam().dtype; }

  // Runs the product on both backends and compares.
  void CompareMatMul(int64_t rows, int64_t out, int64_t in, DType out_dtype, bool bias,
                     bool accumulate) {
    SCOPED_TRACE(testing::Message() << rows << " rows, " << out << " x " << in << " bias " << bias
                                    << " accumulate " << accumulate);
    const TestMatrix weight = TestMatrix::Random(dtype(), out, in, 1, 0.2f);
    const TestMatrix bias_values = TestMatrix::Random(DType::kF32, 1, out, 2);
    TestMatrix x = TestMatrix::Random(dtype(), rows, in, 3);
    TestMatrix actual = TestMatrix::Random(out_dtype, rows, out, 4);
    TestMatrix expected = actual.Copy();
    for (const auto& [backend, result] :
         {std::pair{backend_.get(), &actual}, std::pair{reference_.get(), &expected}}) {
      const auto packed = backend->Pack(weight.tensor(), {});
      ASSERT_TRUE(packed.ok()) << packed.status();
      const auto uploaded = backend->UploadVector(bias_values.tensor());
      backend->MatMul(**packed, x.view(), result->view(),
                      {.bias = bias ? uploaded->get() : nullptr, .accumulate = accumulate});
    }
    ExpectClose(actual, expected, Tolerance(out_dtype), 1 + std::sqrt(static_cast<double>(in)) / 4);
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Backend> reference_;
};

TEST_P(OpsTest, MatMulEqualsReferenceForOddSizes) {
  for (const int64_t rows : {1, 2, 3, 5, 6, 7, 13, 65, 97, 200}) {
    CompareMatMul(rows, 33, 77, dtype(), false, false);
    CompareMatMul(rows, 130, 64, DType::kF32, false, false);
  }
}

TEST_P(OpsTest, MatMulEpilogues) {
  for (const int64_t rows : {1, 4, 9, 70}) {
    CompareMatMul(rows, 48, 96, dtype(), true, false);
    CompareMatMul(rows, 48, 96, DType::kF32, true, false);
    CompareMatMul(rows, 48, 96, DType::kF32, false, true);
    CompareMatMul(rows, 48, 96, DType::kF32, true, true);
  }
}

TEST_P(OpsTest, MatMulOverALongRow) { CompareMatMul(3, 40, 5003, DType::kF32, false, false); }

// Directions of a probe on the state of the rows that draw.
TEST_P(OpsTest, MatMulOfFewColumns) {
  for (const int64_t out : {1, 2, 7, 64}) CompareMatMul(9, out, 96, DType::kF32, true, false);
}

TEST_P(OpsTest, FetchBringsTheFirstNumbersToTheHost) {
  TestMatrix values = TestMatrix::Random(DType::kF32, 3, 20, 5);
  std::vector<float> host(41, -1);
  backend_->Fetch(values.view(), std::span(host).first(40));
  ASSERT_TRUE(backend_->EndStep().ok());
  std::vector<float> expected = values.Values();
  expected.resize(40);
  expected.push_back(-1);
  EXPECT_EQ(host, expected);
}

TEST_P(OpsTest, PackTakesAShardAndEveryCheckpointDtype) {
  for (const DType stored : {DType::kF32, DType::kBF16, DType::kF16}) {
    SCOPED_TRACE(Name(stored));
    TestMatrix weight(stored, 40, 56);
    for (int i = 0; i < 40 * 56; ++i) {
      // Small integers are exact in every dtype; fp16 bits of n/4 for n in [4, 8) below.
      if (stored == DType::kF16) {
        static_cast<uint16_t*>(weight.data())[i] = static_cast<uint16_t>(0x3c00 + (i % 4) * 0x100);
      } else {
        StoreElement(weight.data(), stored, i, 1.0f + 0.25f * static_cast<float>(i % 4));
      }
    }
    const auto packed = backend_->Pack(weight.tensor(), {8, 30, 16, 56});
    ASSERT_TRUE(packed.ok()) << packed.status();
    EXPECT_EQ((*packed)->out(), 22);
    EXPECT_EQ((*packed)->in(), 40);
    TestMatrix x(dtype(), 1, 40);
    for (int i = 0; i < 40; ++i) StoreElement(x.data(), dtype(), i, static_cast<float>(i % 3));
    TestMatrix y(DType::kF32, 1, 22);
    backend_->MatMul(**packed, x.view(), y.view(), {});
    for (int n = 0; n < 22; ++n) {
      float sum = 0;
      for (int k = 0; k < 40; ++k) {
        const int index = (n + 8) * 56 + k + 16;
        sum += static_cast<float>(k % 3) * (1.0f + 0.25f * static_cast<float>(index % 4));
      }
      EXPECT_EQ(y.at(0, n), sum) << n;
    }
  }
}

TEST_P(OpsTest, EmbeddingIsExactFromATableAndFromAPackedWeight) {
  const TestMatrix table = TestMatrix::Random(dtype(), 71, 88, 9);
  const auto uploaded = backend_->UploadTable(table.tensor());
  const auto packed = backend_->Pack(table.tensor(), {});
  const std::vector<int32_t> tokens = {70, 0, 33, 33, 5};
  const std::vector<int32_t> positions = {0, 1, 2, 3, 4};
  const std::vector<int32_t> blocks = {0};
  const StepLayout::Sequence sequence{0, 5, 5, blocks};
  const PagedKv kv{.layout = {.layers = 1, .kv_heads = 1, .head_dim = 8}, .num_blocks = 1};
  ASSERT_TRUE(
      backend_
          ->BeginStep({.tokens = tokens, .positions = positions, .sequences = {&sequence, 1}}, kv)
          .ok());
  TestMatrix from_table(DType::kF32, 5, 88);
  TestMatrix from_packed(DType::kF32, 5, 88);
  backend_->Embed(**uploaded, from_table.view());
  ASSERT_TRUE(backend_->CanEmbedFromPacked());
  backend_->EmbedFromPacked(**packed, from_packed.view());
  for (int row = 0; row < 5; ++row) {
    for (int col = 0; col < 88; ++col) {
      ASSERT_EQ(from_table.at(row, col), table.at(tokens[row], col));
      ASSERT_EQ(from_packed.at(row, col), table.at(tokens[row], col));
    }
  }
}

TEST_P(OpsTest, GatherSampledCopies) {
  const std::vector<int32_t> tokens(6, 0);
  const std::vector<int32_t> positions = {0, 1, 2, 3, 4, 5};
  const std::vector<int32_t> blocks = {0};
  const std::vector<int32_t> rows = {5, 0, 5};
  const StepLayout::Sequence sequence{0, 6, 6, blocks};
  const PagedKv kv{.layout = {.layers = 1, .kv_heads = 1, .head_dim = 8}, .num_blocks = 1};
  StepLayout layout = {
      .tokens = tokens, .positions = positions, .sequences = {&sequence, 1}, .sample_rows = rows};
  const auto begun = backend_->BeginStep(layout, kv);
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->tokens, 6);
  EXPECT_EQ(begun->samples, 3);
  TestMatrix in = TestMatrix::Random(DType::kF32, 6, 37, 11);
  TestMatrix out(DType::kF32, 3, 37);
  backend_->GatherSampled(in.view(), out.view());
  EXPECT_EQ(out.bits(0), in.bits(5));
  EXPECT_EQ(out.bits(1), in.bits(0));
  EXPECT_EQ(out.bits(2), in.bits(5));
  const std::vector<int32_t> outside = {6};
  layout.sample_rows = outside;
  EXPECT_FALSE(backend_->BeginStep(layout, kv).ok()) << "a row that is not there";
}

TEST_P(OpsTest, RmsNormEqualsReference) {
  for (const int64_t cols : {1, 7, 8, 31, 64, 100, 1024, 1030}) {
    SCOPED_TRACE(cols);
    for (const DType out_dtype : {DType::kF32, dtype()}) {
      TestMatrix in = TestMatrix::Random(DType::kF32, 5, cols, 21, 3);
      const TestMatrix weight = TestMatrix::Random(DType::kF32, 1, cols, 22);
      const auto uploaded = backend_->UploadVector(weight.tensor());
      TestMatrix actual(out_dtype, 5, cols);
      TestMatrix expected(out_dtype, 5, cols);
      backend_->RmsNorm(in.view(), **uploaded, 1e-5f, actual.view());
      reference_->RmsNorm(in.view(), **uploaded, 1e-5f, expected.view());
      ExpectClose(actual, expected, Tolerance(out_dtype), 0.1);
    }
  }
}

TEST_P(OpsTest, RmsNormOfARowWhoseSquaresOverflowIsNoNumber) {
  for (const int64_t cols : {7, 64, 1030}) {
    TestMatrix in = TestMatrix::Random(DType::kF32, 2, cols, 21, 3);
    StoreElement(in.data(), DType::kF32, 5, 2e19f);
    const TestMatrix weight = TestMatrix::Random(DType::kF32, 1, cols, 22);
    const auto uploaded = backend_->UploadVector(weight.tensor());
    TestMatrix out(dtype(), 2, cols);
    backend_->RmsNorm(in.view(), **uploaded, 1e-5f, out.view());
    for (int64_t col = 0; col < cols; ++col) {
      EXPECT_TRUE(std::isnan(out.at(0, col))) << col;
      EXPECT_TRUE(std::isfinite(out.at(1, col))) << col;
    }
  }
}

TEST_P(OpsTest, SiluMulEqualsReference) {
  for (const int64_t ffn : {1, 5, 16, 33, 172, 4096}) {
    SCOPED_TRACE(ffn);
    TestMatrix gate_up = TestMatrix::Random(dtype(), 4, 2 * ffn, 31, 4);
    TestMatrix actual(dtype(), 4, ffn);
    TestMatrix expected(dtype(), 4, ffn);
    backend_->SiluMul(gate_up.view(), actual.view());
    reference_->SiluMul(gate_up.view(), expected.view());
    ExpectClose(actual, expected, Tolerance(dtype()), 0.1);
  }
}

TEST_P(OpsTest, SiluMulOfExtremeGates) {
  TestMatrix gate_up(dtype(), 1, 8);
  const float gates[] = {-1e30f, -100.0f, 100.0f, 1e30f};
  for (int i = 0; i < 4; ++i) {
    StoreElement(gate_up.data(), dtype(), i, gates[i]);
    StoreElement(gate_up.data(), dtype(), 4 + i, 1.0f);
  }
  TestMatrix out(dtype(), 1, 4);
  backend_->SiluMul(gate_up.view(), out.view());
  EXPECT_NEAR(out.at(0, 0), 0, 1e-6);
  EXPECT_NEAR(out.at(0, 1), 0, 1e-6);
  EXPECT_NEAR(out.at(0, 2), 100, 1);
  EXPECT_GT(out.at(0, 3), 9e29f);
}

TEST_P(OpsTest, PackRefusesAShardOutsideTheWeight) {
  const TestMatrix weight = TestMatrix::Random(DType::kF32, 8, 8, 1);
  const auto packed = backend_->Pack(weight.tensor(), {4, 12, 0, 8});
  ASSERT_FALSE(packed.ok());
  EXPECT_THAT(packed.status().ToString(), testing::HasSubstr("[4, 12)"));
}

INSTANTIATE_TEST_SUITE_P(Cpu, OpsTest, testing::ValuesIn(CpuWays()), WayName);

}  // namespace
}  // namespace baton::kernels
