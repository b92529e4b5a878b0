// What every backend refuses: the arguments of an operation that break Backend's contract.
#include <vector>

#include "tests/kernels/kernel_fixture.h"
#include "tests/kernels/quantized_fixture.h"

namespace baton::kernels {
namespace {

constexpr int kHidden = 16;
constexpr int kVocab = 11;
constexpr int kTokens = 3;
constexpr AttentionShape kShape = {.q_heads = 2, .kv_heads = 1, .head_dim = 8, .scale = 1};

// A step of three tokens, two of them sampled, has begun on each way to compute. What is refused
// does not depend on threads, and a death test with one is simple.
class OperationCheckTest : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    Way way = GetParam();
    way.threads = 1;
    backend_ = Make(way);
    arena_.resize(kv_.layout.block_bytes());
    kv_.arena = arena_.data();
    ASSERT_TRUE(backend_
                    ->BeginStep({.tokens = tokens_,
                                 .positions = positions_,
                                 .sequences = {&sequence_, 1},
                                 .sample_rows = sample_rows_},
                                kv_)
                    .ok());
    weight_ = backend_->Pack(table_.tensor(), {}).value();
    vector_ = backend_->UploadVector(TestMatrix(DType::kF32, 1, kHidden).tensor()).value();
  }

  DType dtype() const { return GetParam().dtype; }
  TestMatrix Activations(int64_t rows, int64_t cols) const { return {dtype(), rows, cols}; }
  static TestMatrix Floats(int64_t rows, int64_t cols) { return {DType::kF32, rows, cols}; }
  TestMatrix Qkv() const { return Activations(kTokens, 4 * kShape.head_dim); }
  TestMatrix Heads() const { return Activations(kTokens, 2 * kShape.head_dim); }
  // A matrix of a dtype that is neither that of activations nor fp32.
  TestMatrix Halves(int64_t rows, int64_t cols) const { return {DType::kF16, rows, cols}; }

  std::vector<int32_t> tokens_ = {0, kVocab - 1, 4};
  const std::vector<int32_t> positions_ = {0, 1, 2};
  const std::vector<int32_t> sample_rows_ = {2, 0};
  const std::vector<int32_t> blocks_ = {0};
  const StepLayout::Sequence sequence_{0, kTokens, kTokens, blocks_};
  PagedKv kv_ = {.layout = {.layers = 2, .kv_heads = 1, .head_dim = 8}, .num_blocks = 1};
  std::vector<std::byte> arena_;
  const TestMatrix table_ = TestMatrix::Random(DType::kF32, kVocab, kHidden, 1);
  const std::vector<float> inv_freq_ = {1, 0.5f, 0.25f, 0.125f};
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<PackedWeight> weight_;
  std::unique_ptr<Buffer> vector_;  // fp32 [kHidden]
};

TEST_P(OperationCheckTest, EmbeddingsOfAnotherShapeOrDtype) {
  const auto table = backend_->UploadTable(table_.tensor()).value();
  TestMatrix right = Floats(kTokens, kHidden);
  backend_->Embed(*table, right.view());
  backend_->EmbedFromPacked(*weight_, right.view());
  TestMatrix long_rows = Floats(kTokens, kHidden + 1);
  EXPECT_DEATH(backend_->Embed(*table, long_rows.view()), "a table of 176 numbers");
  EXPECT_DEATH(backend_->EmbedFromPacked(*weight_, long_rows.view()), "from rows of 16");
  TestMatrix more = Floats(kTokens + 1, kHidden);
  EXPECT_DEATH(backend_->Embed(*table, more.view()), "4 embeddings for 3 tokens");
  EXPECT_DEATH(backend_->EmbedFromPacked(*weight_, more.view()), "4 embeddings for 3 tokens");
  TestMatrix halves = Halves(kTokens, kHidden);
  EXPECT_DEATH(backend_->Embed(*table, halves.view()), "embeddings are fp32, not float16");
  EXPECT_DEATH(backend_->EmbedFromPacked(*weight_, halves.view()), "embeddings are fp32");
}

TEST_P(OperationCheckTest, EmbeddingsFromIntegers) {
  const RandomQuantized quantized({.rows = kVocab, .cols = kHidden});
  const auto packed = backend_->PackQuantized(quantized.tensor(), {}).value();
  TestMatrix out = Floats(kTokens, kHidden);
  EXPECT_DEATH(backend_->EmbedFromPacked(*packed, out.view()), "11 x 16 that is quantized");
}

TEST_P(OperationCheckTest, TokensOutsideTheVocabulary) {
  const auto table = backend_->UploadTable(table_.tensor()).value();
  TestMatrix out = Floats(kTokens, kHidden);
  for (const int32_t token : {kVocab, -1}) {
    tokens_[1] = token;
    EXPECT_DEATH(backend_->Embed(*table, out.view()), "token -?[0-9]+ of 11");
    EXPECT_DEATH(backend_->EmbedFromPacked(*weight_, out.view()), "token -?[0-9]+ of 11");
  }
}

TEST_P(OperationCheckTest, GathersThatAreNotTheSteps) {
  TestMatrix in = Floats(kTokens, kHidden);
  TestMatrix out = Floats(2, kHidden);
  backend_->GatherSampled(in.view(), out.view());
  EXPECT_DEATH(backend_->GatherSampled(in.rows(0, 2), out.view()), "a gather of 2 of 2 rows");
  EXPECT_DEATH(backend_->GatherSampled(in.view(), out.rows(0, 1)), "a gather of 1 of 3 rows");
  TestMatrix halves = Halves(2, kHidden);
  EXPECT_DEATH(backend_->GatherSampled(in.view(), halves.view()), "float32 as 16 float16");
}

TEST_P(OperationCheckTest, NormsOfAnotherShapeOrDtype) {
  TestMatrix in = Floats(kTokens, kHidden);
  TestMatrix out = Activations(kTokens, kHidden);
  backend_->RmsNorm(in.view(), *vector_, 1e-5f, out.view());
  EXPECT_DEATH(backend_->RmsNorm(in.view(), *vector_, 1e-5f, out.rows(0, 1)), "3 x 16 into 1 x 16");
  TestMatrix halves = Halves(kTokens, kHidden);
  EXPECT_DEATH(backend_->RmsNorm(halves.view(), *vector_, 1e-5f, out.view()), "16 float16");
  EXPECT_DEATH(backend_->RmsNorm(in.view(), *vector_, 1e-5f, halves.view()), "not float16");
  TestMatrix long_in = Floats(kTokens, 2 * kHidden);
  TestMatrix long_out = Activations(kTokens, 2 * kHidden);
  EXPECT_DEATH(backend_->RmsNorm(long_in.view(), *vector_, 1e-5f, long_out.view()),
               "by 64 bytes of weights");
}

TEST_P(OperationCheckTest, ProductsOfAnotherShapeStrideOrDtype) {
  TestMatrix in = Activations(kTokens, kHidden);
  TestMatrix out = Floats(kTokens, kVocab);
  backend_->MatMul(*weight_, in.view(), out.view(), {.bias = vector_.get(), .accumulate = true});
  EXPECT_DEATH(backend_->MatMul(*weight_, in.view(), out.rows(0, 2), {}),
               "3 x 16 by 11 x 16 into 2 x 11");
  Matrix apart = out.rows(0, 2);
  apart.stride = kVocab + 1;
  EXPECT_DEATH(backend_->MatMul(*weight_, in.rows(0, 2), apart, {}), "no gap between rows");
  TestMatrix halves = Halves(kTokens, kHidden);
  EXPECT_DEATH(backend_->MatMul(*weight_, halves.view(), out.view(), {}), "not float16");
  TestMatrix half_out = Halves(kTokens, kVocab);
  EXPECT_DEATH(backend_->MatMul(*weight_, in.view(), half_out.view(), {}), "not float16");
  if (dtype() != DType::kF32) {
    TestMatrix rounded = Activations(kTokens, kVocab);
    backend_->MatMul(*weight_, in.view(), rounded.view(), {});
    EXPECT_DEATH(backend_->MatMul(*weight_, in.view(), rounded.view(), {.accumulate = true}),
                 "unless it accumulates");
  }
  const auto small = backend_->UploadVector(Floats(1, kVocab - 1).tensor()).value();
  EXPECT_DEATH(backend_->MatMul(*weight_, in.view(), out.view(), {.bias = small.get()}),
               "a bias of 40 bytes for 11 columns");
}

TEST_P(OperationCheckTest, RopeOfAnotherHeadDim) {
  TestMatrix qkv = Qkv();
  const auto rope = [&](const RopeShape& shape, const QkNorm& norm) {
    backend_->RopeAndStoreKv(qkv.view(), 0, kShape, shape, norm);
  };
  rope({inv_freq_, 1}, {vector_.get(), vector_.get(), 1e-5f});
  const std::span<const float> three = std::span(inv_freq_).first(3);
  EXPECT_DEATH(rope({three, 1}, {}), "3 rotary frequencies for head_dim 8");
  EXPECT_DEATH(rope({}, {}), "0 rotary frequencies for head_dim 8");
  const auto small = backend_->UploadVector(Floats(1, 7).tensor()).value();
  EXPECT_DEATH(rope({inv_freq_, 1}, {.q = small.get()}), "28 bytes of norm weights");
  EXPECT_DEATH(rope({inv_freq_, 1}, {.k = small.get()}), "28 bytes of norm weights");
}

TEST_P(OperationCheckTest, AttentionThatDoesNotFitTheStepOrTheCache) {
  TestMatrix qkv = Qkv();
  TestMatrix out = Heads();
  const auto both = [&](Matrix in, int layer, const AttentionShape& shape, const char* message) {
    EXPECT_DEATH(backend_->RopeAndStoreKv(in, layer, shape, {inv_freq_, 1}, {}), message);
    EXPECT_DEATH(backend_->PagedAttention(in, layer, shape, out.view()), message);
  };
  backend_->RopeAndStoreKv(qkv.view(), 1, kShape, {inv_freq_, 1}, {});
  backend_->PagedAttention(qkv.view(), 1, kShape, out.view());
  both(qkv.rows(0, 2), 0, kShape, "2 x 32 for 3 tokens");
  both(qkv.view(), 2, kShape, "layer 2 with 1 KV heads of 8");
  both(qkv.view(), -1, kShape, "layer -1");
  both(Halves(kTokens, qkv.cols()).view(), 0, kShape, "not float16");
  AttentionShape shape = kShape;
  shape.head_dim = 12;
  both(qkv.view(), 0, shape, "head_dim 12, expected a multiple of 8 up to 256");
  shape = kShape;
  shape.q_heads = 3;
  shape.kv_heads = 2;
  both(qkv.view(), 0, shape, "3 query heads over 2 KV heads");
  shape = {.q_heads = 1, .kv_heads = 1, .head_dim = 8};
  both(qkv.view(), 0, shape, "3 x 32 for 3 tokens and 3 heads of 8");
}

TEST_P(OperationCheckTest, ScalesOfACacheThatHasNone) {
  TestMatrix qkv = Qkv();
  TestMatrix out = Heads();
  AttentionShape shape = kShape;
  shape.v_scale = 0.5f;
  EXPECT_DEATH(backend_->RopeAndStoreKv(qkv.view(), 1, shape, {inv_freq_, 1}, {}),
               "scales 1 and 0.5 of a KV cache of float32");
  EXPECT_DEATH(backend_->PagedAttention(qkv.view(), 1, shape, out.view()), "scales 1 and 0.5");
}

TEST_P(OperationCheckTest, AttentionIntoAnotherShapeStrideOrDtype) {
  TestMatrix qkv = Qkv();
  TestMatrix out = Heads();
  EXPECT_DEATH(backend_->PagedAttention(qkv.view(), 0, kShape, out.rows(0, 2)), "2 x 16");
  Matrix apart = out.view();
  apart.stride = 17;
  EXPECT_DEATH(backend_->PagedAttention(qkv.view(), 0, kShape, apart), "17 apart");
  TestMatrix halves = Halves(kTokens, out.cols());
  EXPECT_DEATH(backend_->PagedAttention(qkv.view(), 0, kShape, halves.view()),
               "keeps the activations' dtype");
}

TEST_P(OperationCheckTest, GatesOfAnotherShapeOrDtype) {
  TestMatrix gate_up = Activations(kTokens, 2 * kHidden);
  TestMatrix out = Activations(kTokens, kHidden);
  backend_->SiluMul(gate_up.view(), out.view());
  EXPECT_DEATH(backend_->SiluMul(gate_up.view(), out.rows(0, 2)), "3 x 32 into 2 x 16");
  EXPECT_DEATH(backend_->SiluMul(out.view(), out.view()), "3 x 16 into 3 x 16");
  TestMatrix halves = Halves(kTokens, kHidden);
  EXPECT_DEATH(backend_->SiluMul(gate_up.view(), halves.view()), "and float16");
}

TEST_P(OperationCheckTest, SumsOfAnythingButDenseFloats) {
  TestMatrix values = Floats(kTokens, kHidden);
  backend_->AllReduce(values.view());
  Matrix apart = values.rows(0, 2);
  apart.cols = kHidden - 1;
  EXPECT_DEATH(backend_->AllReduce(apart), "fp32 and dense");
  EXPECT_DEATH(backend_->AllReduce(Halves(1, kHidden).view()), "fp32 and dense");
}

TEST_P(OperationCheckTest, PartsThatAreNotThoseOfTheColumns) {
  TestMatrix parts = Floats(1, 2 * 32);
  TestMatrix out = Floats(2, 20);
  backend_->GatherColumns(parts.view(), out.view());
  EXPECT_DEATH(backend_->GatherColumns(parts.view(), Floats(3, 20).view()), "1 x 64 for the parts");
  EXPECT_DEATH(backend_->GatherColumns(Floats(2, 2 * 32).view(), out.view()), "of 1 ranks");
  EXPECT_DEATH(backend_->GatherColumns(parts.view(), Halves(2, 20).view()), "are fp32");
}

TEST_P(OperationCheckTest, FetchesOfAnythingButDenseFloatsThatAreThere) {
  TestMatrix values = Floats(2, kHidden);
  std::vector<float> host(2 * kHidden);
  backend_->Fetch(values.view(), host);
  host.push_back(0);
  EXPECT_DEATH(backend_->Fetch(values.view(), host), "33 numbers to fetch of 2 x 16");
  Matrix apart = values.view();
  apart.cols = kHidden - 1;
  EXPECT_DEATH(backend_->Fetch(apart, std::span(host).first(4)), "fp32 and dense");
  EXPECT_DEATH(backend_->Fetch(Halves(2, kHidden).view(), std::span(host).first(4)),
               "fp32 and dense");
}

TEST_P(OperationCheckTest, SamplesWithoutLogitsOrAResult) {
  TestMatrix logits = TestMatrix::Random(DType::kF32, 2, kVocab, 3);
  std::vector<SampleRow> rows(3);
  std::vector<SampledToken> results(3);
  const auto sample = [&](Matrix from, size_t count, size_t answers) {
    backend_->Sample(from, std::span(rows).first(count), std::span(results).first(answers));
  };
  sample(logits.view(), 2, 2);
  EXPECT_DEATH(sample(logits.view(), 2, 1), "2 rows to sample into 1 results");
  EXPECT_DEATH(sample(logits.view(), 3, 3), "from 2 rows of logits");
  EXPECT_DEATH(sample(Halves(2, kVocab).view(), 2, 2), "logits are fp32, not float16");
  const std::vector<int32_t> twice = {4, 4};
  rows[1].stop_ids = twice;
  EXPECT_DEATH(sample(logits.view(), 2, 2), "2 stop ids of a row are ascending, each once");
  rows[1].stop_ids = {};
  rows[1].eos_ids = twice;
  EXPECT_DEATH(sample(logits.view(), 2, 2), "the 2 EOS ids");
}

std::vector<Way> HostWays() {
  std::vector<Way> ways = CpuWays();
  ways.push_back({Device::kReference, "scalar", DType::kF32});
  ways.push_back({Device::kReference, "scalar", DType::kBF16});
  return ways;
}

INSTANTIATE_TEST_SUITE_P(Host, OperationCheckTest, testing::ValuesIn(HostWays()), WayName);

}  // namespace
}  // namespace baton::kernels
