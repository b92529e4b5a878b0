// Rotary embedding, the KV store and paged attention against the scalar reference.
#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/kv_row.h"
#include "tests/kernels/paged_fixture.h"

namespace baton::kernels {
namespace {

class AttentionTest : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    backend_ = Make(GetParam());
    // Weights are rounded as the backend does, so that results are as near as with exact ones.
    const bool in_pairs = backend_->info().attention_version == 2;
    reference_ = Make({Device::kReference, in_pairs ? "avx512_bf16" : "auto", GetParam().dtype});
  }

  // Prefill, then a batch of a decode and a second prefill, on both backends. K may differ by one
  // in its last place, where a rotation falls on the other side of a tie; so where the reference
  // rounds what comes of it as well it reads the same K, which StoresTheSameKvAsTheReference
  // compares.
  void Compare(AttentionShape shape, KvLayout layout, const QkNorm& norm = {}) {
    SCOPED_TRACE(testing::Message()
                 << shape.q_heads << "/" << shape.kv_heads << " heads of " << shape.head_dim
                 << " window " << shape.sliding_window << " block " << layout.block_size << " kv "
                 << Name(layout.dtype));
    const std::vector<int> lengths = {41, 30};
    AttentionRig actual(*backend_, shape, layout, lengths, 5);
    AttentionRig expected(*reference_, shape, layout, lengths, 5);
    actual.UseNorm(norm.q, norm.k);
    expected.UseNorm(norm.q, norm.k);
    const bool rounds = layout.quantized() || reference_->info().attention_version == 2;
    const AttentionRig* const stored = rounds ? &actual : nullptr;
    for (const auto& pieces :
         {std::vector<Piece>{{0, 0, 40}}, std::vector<Piece>{{0, 40, 1}, {1, 0, 30}}}) {
      actual.Step(pieces);
      expected.Step(pieces, stored);
    }
    double tolerance = layout.quantized()
                           ? Tolerance(GetParam().dtype)
                           : std::max(Tolerance(GetParam().dtype), Tolerance(layout.dtype));
    // In pairs a weight may fall on the other side of a tie as well as a result, which shows where
    // values, too, are rounded.
    const bool in_pairs = reference_->info().attention_version == 2;
    if (in_pairs && layout.dtype == DType::kInt8) tolerance *= 1.25;
    for (int sequence = 0; sequence < 2; ++sequence) {
      EXPECT_LE(DistanceOf(actual.out(sequence), expected.out(sequence), tolerance), 1);
    }
  }

  static double DistanceOf(const TestMatrix& actual, const TestMatrix& expected, double relative) {
    return Distance(actual.Values(), expected.Values(), expected.cols(), relative);
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Backend> reference_;
};

TEST_P(AttentionTest, EveryHeadDim) {
  for (int dim = 8; dim <= 256; dim += dim < 64 ? 8 : 24) {
    const AttentionShape shape = ShapeOf(4, 2, dim);
    Compare(shape, LayoutOf(shape, GetParam().dtype));
  }
  const AttentionShape widest = ShapeOf(2, 1, 256);
  Compare(widest, LayoutOf(widest, GetParam().dtype));
}

TEST_P(AttentionTest, EveryHeadDimOfCodes) {
  for (const DType kv : {DType::kInt8, DType::kFp8}) {
    for (int dim = 16; dim <= 256; dim += dim < 64 ? 16 : 48) {
      const AttentionShape shape = ShapeOf(4, 2, dim);
      Compare(shape, LayoutOf(shape, kv));
    }
  }
}

TEST_P(AttentionTest, GroupsBlocksAndKvDtypes) {
  for (const auto& [q_heads, kv_heads] : {std::pair{2, 2}, {4, 2}, {8, 2}, {7, 1}}) {
    for (const int block : {8, 16, 32, 5}) {
      for (const DType kv : {DType::kF32, DType::kBF16, DType::kInt8, DType::kFp8}) {
        const AttentionShape shape = ShapeOf(q_heads, kv_heads, 64);
        Compare(shape, LayoutOf(shape, kv, block));
      }
    }
  }
}

TEST_P(AttentionTest, ScalesOfALayer) {
  AttentionShape shape = ShapeOf(4, 2, 64, 17);
  shape.k_scale = 0.013f;
  shape.v_scale = 3.7f;
  Compare(shape, LayoutOf(shape, DType::kFp8));
  shape.v_scale = 1;
  Compare(shape, LayoutOf(shape, DType::kFp8));
}

// A scale that is a power of two moves exponents alone: where nothing leaves the range of the
// codes, the results are the same bits.
TEST_P(AttentionTest, ScalesOfPowersOfTwoChangeNothingButTheRange) {
  const AttentionShape plain = ShapeOf(4, 2, 64);
  AttentionShape scaled = plain;
  scaled.k_scale = 0.125f;
  scaled.v_scale = 0.25f;
  AttentionRig once(*backend_, plain, LayoutOf(plain, DType::kFp8), {90}, 5);
  AttentionRig again(*backend_, scaled, LayoutOf(scaled, DType::kFp8), {90}, 5);
  once.Step({{0, 0, 90}});
  again.Step({{0, 0, 90}});
  std::vector<float> stored(64), back(64);
  for (const int plane : {0, 1}) {
    const float scale = plane == 0 ? scaled.k_scale : scaled.v_scale;
    LoadKvRow(DType::kFp8, once.Row(0, plane, 1, 7).data(), stored);
    LoadKvRow(DType::kFp8, again.Row(0, plane, 1, 7).data(), back);
    for (size_t d = 0; d < stored.size(); ++d) {
      if (std::abs(stored[d]) < 0x1.0p-6f) continue;  // of fewer bits
      ASSERT_EQ(back[d] * scale, stored[d]) << d;
    }
  }
  EXPECT_LE(DistanceOf(again.out(0), once.out(0), 0.01), 1);
}

TEST_P(AttentionTest, SlidingWindows) {
  for (const int window : {1, 7, 16, 17, 32, 1000}) {
    const AttentionShape shape = ShapeOf(4, 2, 32, window);
    Compare(shape, LayoutOf(shape, GetParam().dtype));
    Compare(shape, LayoutOf(shape, DType::kInt8));
  }
}

TEST_P(AttentionTest, NormalisesQueriesAndKeys) {
  const TestMatrix q = TestMatrix::Random(DType::kF32, 1, 48, 71);
  const TestMatrix k = TestMatrix::Random(DType::kF32, 1, 48, 72);
  const auto q_weight = reference_->UploadVector(q.tensor());
  const auto k_weight = reference_->UploadVector(k.tensor());
  const AttentionShape shape = ShapeOf(4, 2, 48);
  Compare(shape, LayoutOf(shape, GetParam().dtype), {q_weight->get(), k_weight->get(), 1e-6f});
}

TEST_P(AttentionTest, AQueryWhoseSquaresOverflowIsNoNumber) {
  const TestMatrix weight = TestMatrix::Random(DType::kF32, 1, 32, 71);
  const auto uploaded = backend_->UploadVector(weight.tensor());
  const AttentionShape shape = ShapeOf(1, 1, 32);
  AttentionRig rig(*backend_, shape, LayoutOf(shape, GetParam().dtype), {3}, 5);
  rig.UseNorm(uploaded->get(), uploaded->get());
  StoreElement(rig.qkv(0).data(), rig.qkv(0).dtype(), rig.qkv(0).cols() + 4, 2e19f);
  rig.Step({{0, 0, 3}});
  for (int d = 0; d < 32; ++d) {
    EXPECT_TRUE(std::isfinite(rig.out(0).at(0, d))) << d;
    EXPECT_TRUE(std::isnan(rig.out(0).at(1, d))) << d;
  }
}

TEST_P(AttentionTest, LongContextsMergeSplits) {
  const AttentionShape shape = ShapeOf(2, 1, 64);
  for (const DType kv : {GetParam().dtype, DType::kInt8, DType::kFp8}) {
    const KvLayout layout = LayoutOf(shape, kv);
    AttentionRig actual(*backend_, shape, layout, {700}, 5);
    AttentionRig expected(*reference_, shape, layout, {700}, 5);
    actual.Step({{0, 0, 700}});
    expected.Step({{0, 0, 700}}, layout.quantized() ? &actual : nullptr);
    EXPECT_LE(DistanceOf(actual.out(0), expected.out(0), Tolerance(GetParam().dtype)), 1);
  }
}

// Four keys of 700 are missing. A comparison must notice it with the tolerance of the GPU's tests
// too, which is four times as wide.
TEST_P(AttentionTest, AFewMissingKeysOfALongContextAreNoRounding) {
  const AttentionShape whole = ShapeOf(2, 1, 64);
  const AttentionShape without = ShapeOf(2, 1, 64, 696);
  const KvLayout layout = LayoutOf(whole, GetParam().dtype);
  AttentionRig actual(*backend_, without, layout, {700}, 5);
  AttentionRig expected(*reference_, whole, layout, {700}, 5);
  for (AttentionRig* rig : {&actual, &expected}) rig->Step({{0, 0, 700}});
  EXPECT_GT(DistanceOf(actual.out(0), expected.out(0), 4 * Tolerance(GetParam().dtype)), 1);
}

// How far an element of K may be off where a rotation falls on the other side of a tie.
double StepOf(DType dtype, float value, float largest) {
  if (dtype == DType::kInt8) return 1.01 * largest / 127;
  if (dtype == DType::kFp8) return std::max(std::abs(value) / 8, 0x1.0p-9f);
  return Tolerance(dtype) * std::max(std::abs(value), 0.1f);
}

// K passes through a rotation, whose arithmetic differs; V is stored to the same bits.
TEST_P(AttentionTest, StoresTheSameKvAsTheReference) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kInt8, DType::kFp8}) {
    const AttentionShape shape = ShapeOf(4, 2, SizeOf(dtype) == 1 ? 48 : 40);
    const KvLayout layout = LayoutOf(shape, dtype);
    AttentionRig actual(*backend_, shape, layout, {21}, 5);
    AttentionRig expected(*reference_, shape, layout, {21}, 5);
    for (AttentionRig* rig : {&actual, &expected}) rig->Step({{0, 0, 21}});
    std::vector<float> k(shape.head_dim), want(shape.head_dim);
    for (int t = 0; t < 21; ++t) {
      ASSERT_TRUE(std::ranges::equal(actual.Row(0, 1, 1, t), expected.Row(0, 1, 1, t))) << t;
      LoadKvRow(dtype, actual.Row(0, 0, 1, t).data(), k);
      LoadKvRow(dtype, expected.Row(0, 0, 1, t).data(), want);
      float largest = 0;
      for (const float x : want) largest = std::max(largest, std::abs(x));
      for (int d = 0; d < shape.head_dim; ++d) {
        ASSERT_NEAR(k[d], want[d], StepOf(dtype, want[d], largest)) << t << " " << d;
      }
    }
  }
}

// Rows as no model has them: zeros, the ends of the ranges, ties, and what is no number.
TEST_P(AttentionTest, StoresEveryRowOfCodesToTheSameBits) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> ends = {0,     0x1.0p-133f, 0x1.0p-101f, 0x1.0p-10f, 0x1.0p-7f,
                                   1.0f,  448,         464,         480,        1e30f,
                                   -0.0f, -448,        kInf,        -kInf,      NAN};
  const AttentionShape shape = ShapeOf(1, 1, 32);
  const int tokens = static_cast<int>(ends.size()) + 3;
  for (const DType dtype : {DType::kInt8, DType::kFp8}) {
    AttentionRig actual(*backend_, shape, LayoutOf(shape, dtype), {tokens}, 5);
    AttentionRig expected(*reference_, shape, LayoutOf(shape, dtype), {tokens}, 5);
    for (AttentionRig* rig : {&actual, &expected}) {
      TestMatrix& qkv = rig->qkv(0);
      for (size_t t = 0; t < ends.size(); ++t) {
        // One row has nothing else, so that the value is its largest one too.
        for (int d = 64; d < 96; d += t % 2 == 0 ? 1 : 5) {
          StoreElement(qkv.data(), qkv.dtype(), static_cast<int64_t>(t) * qkv.cols() + d, ends[t]);
        }
      }
      for (int d = 0; d < 32; ++d) {  // codes of int8 at ties, and of e4m3
        const int64_t row = static_cast<int64_t>(ends.size()) * qkv.cols() + 64 + d;
        StoreElement(qkv.data(), qkv.dtype(), row, d == 0 ? 127 : static_cast<float>(d) + 0.5f);
        StoreElement(qkv.data(), qkv.dtype(), row + qkv.cols(), (16.5f + d) * 0x1.0p-9f);
      }
      rig->Step({{0, 0, tokens}});
    }
    std::vector<float> stored(32);
    for (int t = 0; t < tokens; ++t) {
      ASSERT_TRUE(std::ranges::equal(actual.Row(0, 1, 0, t), expected.Row(0, 1, 0, t)))
          << Name(dtype) << " row " << t;
    }
    LoadKvRow(dtype, actual.Row(0, 1, 0, 14).data(), stored);
    EXPECT_TRUE(std::isnan(stored[0])) << "a NaN is not hidden";
  }
}

// One element of a token's Q, K or V that is no number spoils what sees it, as in the reference.
void ExpectNothingHidden(Backend& backend, Backend& reference, DType kv) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr int kTokens = 300;  // two splits
  const AttentionShape shape = ShapeOf(1, 1, 32);
  for (const int bad_token : {7, 270}) {
    for (const int column : {3, 35, 67}) {  // of Q, K and V
      for (const float bad : {static_cast<float>(NAN), kInf, -kInf}) {
        SCOPED_TRACE(absl::StrCat("token ", bad_token, " column ", column, " is ", bad));
        AttentionRig actual(backend, shape, LayoutOf(shape, kv), {kTokens}, 5);
        AttentionRig expected(reference, shape, LayoutOf(shape, kv), {kTokens}, 5);
        for (AttentionRig* rig : {&actual, &expected}) {
          TestMatrix& qkv = rig->qkv(0);
          StoreElement(qkv.data(), qkv.dtype(), int64_t{bad_token} * qkv.cols() + column, bad);
          rig->Step({{0, 0, kTokens}});
        }
        for (int t = 0; t < kTokens; ++t) {
          for (int d = 0; d < 32; ++d) {
            ASSERT_EQ(std::isfinite(actual.out(0).at(t, d)),
                      std::isfinite(expected.out(0).at(t, d)))
                << t << " " << d;
          }
        }
      }
    }
  }
}

TEST_P(AttentionTest, HidesNothingThatIsNoNumber) {
  for (const DType kv : {DType::kF32, DType::kBF16, DType::kInt8, DType::kFp8}) {
    SCOPED_TRACE(Name(kv));
    ExpectNothingHidden(*backend_, *reference_, kv);
  }
}

TEST_P(AttentionTest, KeepsRowsToThePrecisionOfTheirCodes) {
  const TestMatrix values = TestMatrix::Random(DType::kF32, 1, 4096, 3, 2);
  std::vector<std::byte> row(4096 + sizeof(float));
  std::vector<float> back(4096);
  float largest = 0;
  for (const float x : values.Values()) largest = std::max(largest, std::abs(x));
  for (const DType dtype : {DType::kInt8, DType::kFp8}) {
    StoreKvRow(dtype, values.Values(), row.data());
    LoadKvRow(dtype, row.data(), back);
    for (int i = 0; i < 4096; ++i) {
      const float x = values.at(0, i);
      const float bound =
          dtype == DType::kInt8 ? 0.501f * largest / 127 : std::max(std::abs(x) / 16, 0x1.0p-10f);
      ASSERT_NEAR(back[i], x, bound) << Name(dtype);
    }
  }
}

TEST_P(AttentionTest, BeginStepRefusesABadLayout) {
  const std::vector<int32_t> tokens = {1, 2};
  const std::vector<int32_t> blocks = {3};
  const PagedKv kv{.layout = {.layers = 1, .kv_heads = 1, .head_dim = 8}, .num_blocks = 4};
  const auto begin = [&](std::vector<int32_t> positions, StepLayout::Sequence sequence,
                         const PagedKv& arena) {
    return backend_
        ->BeginStep({.tokens = tokens, .positions = positions, .sequences = {&sequence, 1}}, arena)
        .status();
  };
  EXPECT_TRUE(begin({0, 1}, {0, 2, 2, blocks}, kv).ok());
  EXPECT_FALSE(begin({0, 2}, {0, 2, 2, blocks}, kv).ok()) << "a gap in the positions";
  EXPECT_FALSE(begin({0, 1}, {0, 2, 1, blocks}, kv).ok()) << "more tokens than context";
  EXPECT_FALSE(begin({0, 1}, {0, 1, 1, blocks}, kv).ok()) << "a token of no sequence";
  EXPECT_FALSE(begin({16, 17}, {0, 2, 18, blocks}, kv).ok()) << "a block table that is too short";
  PagedKv small = kv;
  small.num_blocks = 3;
  EXPECT_FALSE(begin({0, 1}, {0, 2, 2, blocks}, small).ok()) << "a block that does not exist";
  PagedKv half = kv;
  half.layout.dtype = DType::kF16;
  EXPECT_FALSE(begin({0, 1}, {0, 2, 2, blocks}, half).ok()) << "a dtype that no host computes in";
  for (const DType dtype : {DType::kInt8, DType::kFp8}) {
    PagedKv codes = kv;
    codes.layout.dtype = dtype;
    EXPECT_THAT(std::string(begin({0, 1}, {0, 2, 2, blocks}, codes).message()),
                testing::HasSubstr("heads of 8; expected a multiple of 16"));
    codes.layout.head_dim = 16;
    EXPECT_TRUE(begin({0, 1}, {0, 2, 2, blocks}, codes).ok());
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, AttentionTest, testing::ValuesIn(CpuWays()), WayName);

}  // namespace
}  // namespace baton::kernels
