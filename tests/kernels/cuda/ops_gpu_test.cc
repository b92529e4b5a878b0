// Row-wise operations and products of the CUDA backend against the scalar reference, in every
// dtype. Tolerance: DeviceTolerance(dtype) of the larger of the expected value and the floor that
// the test names; products sum in fp32, so their floor grows with the square root of the length.
#include <cmath>
#include <vector>

#include "tests/kernels/copy_blocks_fixture.h"
#include "tests/kernels/cuda/device_fixture.h"

namespace baton::kernels {
namespace {

class CudaOpsTest : public CudaAndReferenceTest {
 protected:
  struct Case {
    int64_t rows, out, in;
    DType out_dtype;
    bool bias = false;
    bool accumulate = false;
  };

  // Runs the product on the device, twice, and on the reference.
  void CompareMatMul(const Case& c) {
    SCOPED_TRACE(testing::Message() << c.rows << " rows, " << c.out << " x " << c.in << " bias "
                                    << c.bias << " accumulate " << c.accumulate);
    std::vector<float> weight = ExactValues(c.out * c.in, 1);
    std::vector<float> bias = ExactValues(c.out, 2);
    std::vector<float> x = ExactValues(c.rows * c.in, 3);
    std::vector<float> expected = ExactValues(c.rows * c.out, 4);
    const DeviceMatrix in(*backend_, dtype(), c.rows, c.in, x);
    const DeviceMatrix first(*backend_, c.out_dtype, c.rows, c.out, expected);
    const DeviceMatrix second(*backend_, c.out_dtype, c.rows, c.out, expected);
    const auto packed = backend_->Pack({weight.data(), DType::kF32, c.out, c.in}, {});
    ASSERT_TRUE(packed.ok()) << packed.status();
    const auto vector = backend_->UploadVector({bias.data(), DType::kF32, 1, c.out});
    ASSERT_TRUE(vector.ok()) << vector.status();
    for (const DeviceMatrix* out : {&first, &second}) {
      backend_->MatMul(**packed, in.view(), out->view(),
                       {.bias = c.bias ? vector->get() : nullptr, .accumulate = c.accumulate});
    }
    ASSERT_TRUE(backend_->EndStep().ok());
    const auto host_weight = reference_->Pack({weight.data(), DType::kF32, c.out, c.in}, {});
    const auto host_bias = reference_->UploadVector({bias.data(), DType::kF32, 1, c.out});
    reference_->MatMul(**host_weight, HostMatrix(x, c.in), HostMatrix(expected, c.out),
                       {.bias = c.bias ? host_bias->get() : nullptr, .accumulate = c.accumulate});
    ExpectValues(first.Values(), expected, DeviceTolerance(c.out_dtype),
                 1 + std::sqrt(static_cast<double>(c.in)));
    EXPECT_EQ(first.Bytes(), second.Bytes()) << "not the same from run to run";
  }
};

TEST_P(CudaOpsTest, CopyBlocksMovesWholeBlocks) { ExpectBlocksCopied(*backend_); }

TEST_P(CudaOpsTest, MatMulEqualsReference) {
  for (const int64_t rows : {1, 2, 3, 5, 8, 13, 64, 97, 200}) {
    CompareMatMul({rows, 136, 80, dtype()});
    CompareMatMul({rows, 128, 256, DType::kF32});
    CompareMatMul({rows, 33, 77, DType::kF32});
  }
  CompareMatMul({17, 4096, 1024, dtype()});
  CompareMatMul({1, 64, 8192, DType::kF32});
}

TEST_P(CudaOpsTest, MatMulEpilogues) {
  for (const int64_t rows : {1, 4, 9, 70}) {
    CompareMatMul({rows, 48, 96, dtype(), true, false});
    CompareMatMul({rows, 48, 96, DType::kF32, true, false});
    CompareMatMul({rows, 48, 96, DType::kF32, false, true});
    CompareMatMul({rows, 48, 96, DType::kF32, true, true});
  }
}

// Directions of a probe on the state of the rows that draw.
TEST_P(CudaOpsTest, MatMulOfFewColumns) {
  for (const int64_t out : {1, 2, 7, 64}) CompareMatMul({9, out, 96, DType::kF32, true, false});
}

// Two steps run, and the second overwrites what the first one fetched from.
TEST_P(CudaOpsTest, FetchBringsTheNumbersOfItsStepToTheHost) {
  ASSERT_TRUE(backend_->Prepare({.max_tokens = 8, .max_samples = 8, .fetched = 12}).ok());
  const std::vector<int32_t> zero = {0};
  const StepLayout::Sequence sequence{0, 1, 1, zero};
  const PagedKv kv{.layout = {.layers = 1, .kv_heads = 1, .head_dim = 8}, .num_blocks = 1};
  const StepLayout layout = {
      .tokens = zero, .positions = zero, .sequences = {&sequence, 1}, .sample_rows = zero};
  std::vector<float> weight = ExactValues(64 * 64, 9);
  const auto packed = backend_->Pack({weight.data(), DType::kF32, 64, 64}, {});
  ASSERT_TRUE(packed.ok()) << packed.status();
  const DeviceMatrix out(*backend_, DType::kF32, 4, 64);
  std::vector<std::vector<float>> inputs, fetched(4);
  std::vector<std::unique_ptr<DeviceMatrix>> in;
  for (size_t step = 0; step < fetched.size(); ++step) {
    inputs.push_back(ExactValues(4 * 64, static_cast<uint32_t>(step)));
    in.push_back(std::make_unique<DeviceMatrix>(*backend_, dtype(), 4, 64, inputs.back()));
    // The last one is more than was prepared for.
    fetched[step].resize(step < 3 ? 12 : 4 * 64);
  }
  for (size_t step = 0; step < fetched.size(); ++step) {
    ASSERT_TRUE(backend_->BeginStep(layout, kv).ok());
    ASSERT_TRUE(backend_
                    ->RunStep(step + 1,
                              [&] { backend_->MatMul(**packed, in[step]->view(), out.view(), {}); })
                    .ok());
    backend_->Fetch(out.view(), fetched[step]);
    if (step == 0) continue;
    ASSERT_TRUE(backend_->EndStep().ok());
  }
  ASSERT_TRUE(backend_->EndStep().ok());
  const auto host = reference_->Pack({weight.data(), DType::kF32, 64, 64}, {});
  for (size_t step = 0; step < fetched.size(); ++step) {
    SCOPED_TRACE(step);
    std::vector<float> expected(4 * 64);
    reference_->MatMul(**host, HostMatrix(inputs[step], 64), HostMatrix(expected, 64), {});
    expected.resize(fetched[step].size());
    ExpectValues(fetched[step], expected, 2e-5, 9);
  }
}

TEST_P(CudaOpsTest, PreparedProductsServeEveryNumberOfRows) {
  std::vector<float> weight = ExactValues(96 * 64, 1);
  const auto packed = backend_->Pack({weight.data(), DType::kF32, 96, 64}, {});
  ASSERT_TRUE(packed.ok()) << packed.status();
  const MatMulUse use = {.weight = packed->get(), .max_rows = 130};
  const absl::Status prepared =
      backend_->Prepare({.products = {&use, 1}, .max_tokens = 130, .max_samples = 8});
  ASSERT_TRUE(prepared.ok()) << prepared;
  const auto host = reference_->Pack({weight.data(), DType::kF32, 96, 64}, {});
  for (const int64_t rows : {1, 64, 81, 130, 1000}) {
    std::vector<float> x = ExactValues(rows * 64, 2);
    std::vector<float> expected(static_cast<size_t>(rows) * 96);
    const DeviceMatrix in(*backend_, dtype(), rows, 64, x);
    const DeviceMatrix out(*backend_, DType::kF32, rows, 96);
    backend_->MatMul(**packed, in.view(), out.view(), {});
    reference_->MatMul(**host, HostMatrix(x, 64), HostMatrix(expected, 96), {});
    ASSERT_TRUE(backend_->EndStep().ok());
    ExpectValues(out.Values(), expected, 2e-5, 9);
  }
}

TEST_P(CudaOpsTest, PackTakesAShardAndEveryCheckpointDtype) {
  const std::vector<float> values = ExactValues(40 * 56, 5);
  std::vector<float> x = ExactValues(40, 6);
  for (const DType stored : {DType::kF32, DType::kBF16, DType::kF16}) {
    SCOPED_TRACE(Name(stored));
    const std::vector<std::byte> bytes = DeviceMatrix::Encode(stored, values);
    const auto packed = backend_->Pack({bytes.data(), stored, 40, 56}, {8, 30, 16, 56});
    ASSERT_TRUE(packed.ok()) << packed.status();
    EXPECT_EQ((*packed)->out(), 22);
    EXPECT_EQ((*packed)->in(), 40);
    const DeviceMatrix in(*backend_, dtype(), 1, 40, x);
    const DeviceMatrix out(*backend_, DType::kF32, 1, 22);
    backend_->MatMul(**packed, in.view(), out.view(), {});
    ASSERT_TRUE(backend_->EndStep().ok());
    std::vector<float> expected(22, 0);
    for (size_t n = 0; n < 22; ++n) {
      for (size_t k = 0; k < 40; ++k) expected[n] += x[k] * values[(n + 8) * 56 + k + 16];
    }
    ExpectValues(out.Values(), expected, 1e-5, 8);
  }
}

TEST_P(CudaOpsTest, StepsLargerThanAGridAreRefused) {
  const absl::Status prepared = backend_->Prepare({.max_tokens = 70000, .max_samples = 8});
  EXPECT_EQ(prepared.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(prepared.ToString(), testing::HasSubstr("--max-num-batched-tokens"));
}

TEST_P(CudaOpsTest, PackRefusesAShardOutsideTheWeight) {
  const std::vector<float> weight(64, 1);
  const auto packed = backend_->Pack({weight.data(), DType::kF32, 8, 8}, {4, 12, 0, 8});
  ASSERT_FALSE(packed.ok());
  EXPECT_THAT(packed.status().ToString(), testing::HasSubstr("[4, 12)"));
}

TEST_P(CudaOpsTest, EmbeddingAndGatherAreExact) {
  for (const int64_t cols : {88, 37, 4096}) {
    std::vector<float> table = ExactValues(71 * cols, 9);
    const auto uploaded = backend_->UploadTable({table.data(), DType::kF32, 71, cols});
    const auto packed = backend_->Pack({table.data(), DType::kF32, 71, cols}, {});
    ASSERT_TRUE(uploaded.ok() && packed.ok());
    const std::vector<int32_t> tokens = {70, 0, 33, 33, 5};
    const std::vector<int32_t> positions = {0, 1, 2, 3, 4};
    const std::vector<int32_t> blocks = {0};
    const std::vector<int32_t> rows = {4, 0};
    const StepLayout::Sequence sequence{0, 5, 5, blocks};
    const PagedKv kv{.layout = {.layers = 1, .kv_heads = 1, .head_dim = 8}, .num_blocks = 1};
    const auto begun = backend_->BeginStep({.tokens = tokens,
                                            .positions = positions,
                                            .sequences = {&sequence, 1},
                                            .sample_rows = rows},
                                           kv);
    ASSERT_TRUE(begun.ok()) << begun.status();
    const DeviceMatrix from_table(*backend_, DType::kF32, 5, cols);
    const DeviceMatrix from_packed(*backend_, DType::kF32, 5, cols);
    const DeviceMatrix gathered(*backend_, DType::kF32, 2, cols);
    backend_->Embed(**uploaded, from_table.view());
    backend_->EmbedFromPacked(**packed, from_packed.view());
    backend_->GatherSampled(from_table.view(), gathered.view());
    ASSERT_TRUE(backend_->EndStep().ok());
    std::vector<float> expected;
    for (const int32_t token : tokens) {
      expected.insert(expected.end(), table.begin() + token * cols,
                      table.begin() + (token + 1) * cols);
    }
    EXPECT_EQ(from_table.Values(), expected);
    EXPECT_EQ(from_packed.Values(), expected);
    std::vector<float> sampled(expected.begin() + 4 * cols, expected.end());
    sampled.insert(sampled.end(), expected.begin(), expected.begin() + cols);
    EXPECT_EQ(gathered.Values(), sampled);
  }
}

TEST_P(CudaOpsTest, RmsNormEqualsReference) {
  for (const int64_t cols : {1, 7, 8, 31, 100, 1024, 1030, 4096, 5120, 20000}) {
    SCOPED_TRACE(cols);
    for (const DType out_dtype : {DType::kF32, dtype()}) {
      std::vector<float> in = ExactValues(5 * cols, 21);
      std::vector<float> weight = ExactValues(cols, 22);
      std::vector<float> expected(in.size());
      const DeviceMatrix device_in(*backend_, DType::kF32, 5, cols, in);
      const DeviceMatrix out(*backend_, out_dtype, 5, cols);
      const auto device_weight = backend_->UploadVector({weight.data(), DType::kF32, 1, cols});
      const auto host_weight = reference_->UploadVector({weight.data(), DType::kF32, 1, cols});
      backend_->RmsNorm(device_in.view(), **device_weight, 1e-5f, out.view());
      reference_->RmsNorm(HostMatrix(in, cols), **host_weight, 1e-5f, HostMatrix(expected, cols));
      ASSERT_TRUE(backend_->EndStep().ok());
      ExpectValues(out.Values(), expected, DeviceTolerance(out_dtype), 0.1);
    }
  }
}

TEST_P(CudaOpsTest, RmsNormOfARowWhoseSquaresOverflowIsNoNumber) {
  for (const int64_t cols : {31, 1024, 20000}) {
    SCOPED_TRACE(cols);
    std::vector<float> in = ExactValues(2 * cols, 21);
    in[5] = 2e19f;
    std::vector<float> weight(static_cast<size_t>(cols), 1);
    const DeviceMatrix device_in(*backend_, DType::kF32, 2, cols, in);
    const DeviceMatrix out(*backend_, dtype(), 2, cols);
    const auto uploaded = backend_->UploadVector({weight.data(), DType::kF32, 1, cols});
    backend_->RmsNorm(device_in.view(), **uploaded, 1e-5f, out.view());
    ASSERT_TRUE(backend_->EndStep().ok());
    const std::vector<float> values = out.Values();
    for (size_t col = 0; col < static_cast<size_t>(cols); ++col) {
      ASSERT_TRUE(std::isnan(values[col])) << col;
      ASSERT_TRUE(std::isfinite(values[static_cast<size_t>(cols) + col])) << col;
    }
  }
}

TEST_P(CudaOpsTest, SiluMulEqualsReference) {
  for (const int64_t ffn : {1, 5, 16, 33, 172, 4096, 14336}) {
    SCOPED_TRACE(ffn);
    std::vector<float> gate_up = ExactValues(4 * 2 * ffn, 31);
    std::vector<float> expected(static_cast<size_t>(4 * ffn));
    const DeviceMatrix in(*backend_, dtype(), 4, 2 * ffn, gate_up);
    const DeviceMatrix out(*backend_, dtype(), 4, ffn);
    backend_->SiluMul(in.view(), out.view());
    reference_->SiluMul(HostMatrix(gate_up, 2 * ffn), HostMatrix(expected, ffn));
    ASSERT_TRUE(backend_->EndStep().ok());
    ExpectValues(out.Values(), expected, DeviceTolerance(dtype()), 0.1);
  }
}

TEST_P(CudaOpsTest, SiluMulOfExtremeGates) {
  const DeviceMatrix in(*backend_, dtype(), 1, 8, {-60000, -100, 100, 60000, 1, 1, 1, 1});
  const DeviceMatrix out(*backend_, dtype(), 1, 4);
  backend_->SiluMul(in.view(), out.view());
  ASSERT_TRUE(backend_->EndStep().ok());
  const std::vector<float> values = out.Values();
  EXPECT_NEAR(values[0], 0, 1e-6);
  EXPECT_NEAR(values[1], 0, 1e-6);
  EXPECT_NEAR(values[2], 100, 1);
  EXPECT_NEAR(values[3], 60000, 500);
}

TEST_P(CudaOpsTest, ATokenOutsideTheTableGivesADrawThatIsNotValid) {
  std::vector<float> table = ExactValues(8 * 16, 9);
  const auto packed = backend_->Pack({table.data(), DType::kF32, 8, 16}, {});
  const std::vector<int32_t> blocks = {0};
  const StepLayout::Sequence sequence{0, 1, 1, blocks};
  const PagedKv kv{.layout = {.layers = 1, .kv_heads = 1, .head_dim = 8}, .num_blocks = 1};
  const std::vector<int32_t> zero = {0};
  for (const int32_t token : {99, 3}) {
    const std::vector<int32_t> tokens = {token};
    ASSERT_TRUE(backend_
                    ->BeginStep({.tokens = tokens,
                                 .positions = zero,
                                 .sequences = {&sequence, 1},
                                 .sample_rows = zero},
                                kv)
                    .ok());
    const DeviceMatrix logits(*backend_, DType::kF32, 1, 16);
    backend_->EmbedFromPacked(**packed, logits.view());
    const std::vector<SampleRow> rows(1);
    std::vector<SampledToken> results(1);
    backend_->Sample(logits.view(), rows, results);
    const absl::Status ended = backend_->EndStep();
    EXPECT_TRUE(ended.ok()) << ended;
    EXPECT_EQ(results[0].valid, token == 3) << token;
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaOpsTest, testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                         DTypeName);

}  // namespace
}  // namespace baton::kernels
