// Rotary embedding, the KV store and paged attention against the scalar reference.
#include <vector>

#include "tests/kernels/paged_fixture.h"

namespace baton::kernels {
namespace {

class AttentionTest : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    backend_ = Make(GetParam());
    reference_ = Make({Device::kReference, "auto", GetParam().dtype});
  }

  // Prefill, then a batch of a decode and a second prefill, on both backends.
  void Compare(AttentionShape shape, KvLayout layout, const QkNorm& norm = {}) {
    SCOPED_TRACE(testing::Message()
                 << shape.q_heads << "/" << shape.kv_heads << " heads of " << shape.head_dim
                 << " window " << shape.sliding_window << " block " << layout.block_size << " kv "
                 << Name(layout.dtype));
    const std::vector<int> lengths = {41, 30};
    AttentionRig actual(*backend_, shape, layout, lengths, 5);
    AttentionRig expected(*reference_, shape, layout, lengths, 5);
    for (AttentionRig* rig : {&actual, &expected}) {
      rig->UseNorm(norm.q, norm.k);
      rig->Step({{0, 0, 40}});
      rig->Step({{0, 40, 1}, {1, 0, 30}});
    }
    const double tolerance = std::max(Tolerance(GetParam().dtype), Tolerance(layout.dtype));
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

TEST_P(AttentionTest, GroupsBlocksAndKvDtypes) {
  for (const auto& [q_heads, kv_heads] : {std::pair{2, 2}, {4, 2}, {8, 2}, {7, 1}}) {
    for (const int block : {8, 16, 32, 5}) {
      for (const DType kv : {DType::kF32, DType::kBF16}) {
        const AttentionShape shape = ShapeOf(q_heads, kv_heads, 64);
        Compare(shape, LayoutOf(shape, kv, block));
      }
    }
  }
}

TEST_P(AttentionTest, SlidingWindows) {
  for (const int window : {1, 7, 16, 17, 32, 1000}) {
    const AttentionShape shape = ShapeOf(4, 2, 32, window);
    Compare(shape, LayoutOf(shape, GetParam().dtype));
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

TEST_P(AttentionTest, LongContextsMergeSplits) {
  const AttentionShape shape = ShapeOf(2, 1, 64);
  const KvLayout layout = LayoutOf(shape, GetParam().dtype);
  AttentionRig actual(*backend_, shape, layout, {700}, 5);
  AttentionRig expected(*reference_, shape, layout, {700}, 5);
  for (AttentionRig* rig : {&actual, &expected}) rig->Step({{0, 0, 700}});
  EXPECT_LE(DistanceOf(actual.out(0), expected.out(0), Tolerance(GetParam().dtype)), 1);
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

TEST_P(AttentionTest, StoresTheSameKvAsTheReference) {
  const AttentionShape shape = ShapeOf(4, 2, 40);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const KvLayout layout = LayoutOf(shape, dtype);
    AttentionRig actual(*backend_, shape, layout, {21}, 5);
    AttentionRig expected(*reference_, shape, layout, {21}, 5);
    for (AttentionRig* rig : {&actual, &expected}) rig->Step({{0, 0, 21}});
    for (int t = 0; t < 21; ++t) {
      for (int plane = 0; plane < 2; ++plane) {
        for (int d = 0; d < shape.head_dim; ++d) {
          const auto at = [&](const AttentionRig& rig) {
            const size_t offset = rig.kv().offset(AttentionRig::kLayer, plane, 1, t % 16);
            return LoadElement(rig.kv().block(rig.table(0)[t / 16]), dtype,
                               static_cast<int64_t>(offset) + d);
          };
          const double bound = Tolerance(dtype) * std::max(std::abs(at(expected)), 0.1f);
          ASSERT_NEAR(at(actual), at(expected), bound) << t << " " << d;
        }
      }
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
}

INSTANTIATE_TEST_SUITE_P(Cpu, AttentionTest, testing::ValuesIn(CpuWays()), WayName);

}  // namespace
}  // namespace baton::kernels
