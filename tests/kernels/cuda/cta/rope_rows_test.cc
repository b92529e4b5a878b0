// The kernel of RopeAndStoreKv, run on the host thread by thread, against the scalar reference: bit
// for bit where no step but the last of each number rounds, and close otherwise.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/kernels/cuda/cta/emulated_rope.h"

namespace baton::kernels::cuda {
namespace {

// More heads than warps and fewer; heads of more lanes than a warp, of fewer, and that end within
// one; warps that go on after a head of q, of k and of v.
std::vector<RopeCase> RopeCases() {
  return {{},
          {.q_heads = 8, .kv_heads = 2, .head_dim = 128, .gap = 5},
          {.q_heads = 3, .kv_heads = 3, .head_dim = 40, .block_size = 1, .q_scale = 0.25F},
          {.q_heads = 4, .kv_heads = 2, .head_dim = 8, .k_scale = 0.5F, .v_scale = 0.3F},
          {.q_heads = 14, .kv_heads = 2, .head_dim = 72, .gap = 1, .attention_factor = 1.25F},
          {.q_heads = 9, .kv_heads = 9, .head_dim = 8},
          {.q_heads = 17,
           .kv_heads = 1,
           .head_dim = 256,
           .block_size = 16,
           .gap = 24,
           .attention_factor = 0.7F,
           .q_scale = 0.5F,
           .k_scale = 0.013F,
           .v_scale = 3}};
}

std::string TextOf(const RopeCase& shape) {
  return testing::PrintToString(shape.q_heads) + " and " + testing::PrintToString(shape.kv_heads) +
         " heads of " + testing::PrintToString(shape.head_dim) + (shape.norm_q ? ", q norm" : "") +
         (shape.norm_k ? ", k norm" : "");
}

// The arena's numbers as elements of Kv.
template <typename Kv>
std::vector<uint32_t> BitsAsStored(const std::vector<float>& kv) {
  if constexpr (std::is_same_v<Kv, E4m3Bits>) {
    return std::vector<uint32_t>(kv.begin(), kv.end());
  } else {
    return BitsOf(Narrowed<Kv>(kv));
  }
}

template <typename T, typename Kv>
void ExpectBits(const RopeCase& shape, const Tokens& tokens, const std::vector<float>& values) {
  SCOPED_TRACE(TextOf(shape));
  const RopeRig rig(shape, tokens);
  const Results expected = rig.Reference<Kv>(values);
  const auto expected_qkv =
      BitsOf(Narrowed<T>(rig.Spread(expected.qkv, shape.width() + shape.gap)));
  const auto expected_kv = BitsAsStored<Kv>(expected.kv);
  for (const HostCta::Order order : kOrdersOfThreads) {
    const auto [qkv, kv] = rig.Emulate<T, Kv>(values, order);
    ASSERT_EQ(BitsOf(qkv), expected_qkv);
    ASSERT_EQ(BitsOf(kv), expected_kv);
  }
}

template <typename Pair>
class RopeRowsTest : public testing::Test {};
using StoredElements = testing::Types<
    std::pair<float, float>, std::pair<float, Bf16Bits>, std::pair<float, F16Bits>,
    std::pair<float, E4m3Bits>, std::pair<Bf16Bits, float>, std::pair<Bf16Bits, Bf16Bits>,
    std::pair<Bf16Bits, F16Bits>, std::pair<Bf16Bits, E4m3Bits>, std::pair<F16Bits, float>,
    std::pair<F16Bits, Bf16Bits>, std::pair<F16Bits, F16Bits>, std::pair<F16Bits, E4m3Bits>>;
TYPED_TEST_SUITE(RopeRowsTest, StoredElements);

TYPED_TEST(RopeRowsTest, HaveTheBitsOfTheReferenceInEveryOrderOfThreads) {
  using T = typename TypeParam::first_type;
  using Kv = typename TypeParam::second_type;
  for (const bool one : {true, false}) {
    const Tokens tokens(one);
    for (const RopeCase& shape : RopeCases()) {
      const auto values = RopeRig(shape, tokens).ExactInputs(/*even=*/false);
      ExpectBits<T, Kv>(shape, tokens, values);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(RopeRowsTest, HaveTheBitsOfTheReferenceWithNormsOfHeads) {
  using T = typename TypeParam::first_type;
  using Kv = typename TypeParam::second_type;
  const Tokens tokens(/*one=*/false);
  for (RopeCase shape : RopeCases()) {
    for (const auto& [q, k] : {std::pair(true, true), {true, false}, {false, true}}) {
      shape.norm_q = q;
      shape.norm_k = k;
      const auto values = RopeRig(shape, tokens).ExactInputs(/*even=*/true);
      ExpectBits<T, Kv>(shape, tokens, values);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// What is no number, or too large for the cache, in V: it is only rounded. Here a NaN
// keeps its bits; a device may make another NaN of it.
TYPED_TEST(RopeRowsTest, StoreWhatIsNoNumberAsTheReferenceDoes) {
  using T = typename TypeParam::first_type;
  using Kv = typename TypeParam::second_type;
  const Tokens tokens(/*one=*/false);
  const RopeCase shape = {.q_heads = 2, .kv_heads = 2, .head_dim = 72, .v_scale = 0.3F};
  std::vector<float> values = RopeRig(shape, tokens).ExactInputs(/*even=*/false);
  const std::vector<float> special = {kNan, -kNan, kInfinity, -kInfinity, 60000, -60000,
                                      0.0F, -0.0F, 448,       -464,       1e-4F, -1e-5F};
  const size_t v_begin = static_cast<size_t>(4 * shape.head_dim);
  for (size_t i = 0; i < 5 * special.size(); ++i) {
    for (const size_t head : {0, 1}) {
      values[v_begin + head * 72 + i] = special[(i + head) % special.size()];
    }
  }
  ExpectBits<T, Kv>(shape, tokens, Widened(Narrowed<T>(values)));
}

TEST(RopeValuesTest, AreNearThoseOfTheReference) {
  const Tokens tokens(/*one=*/false);
  for (RopeCase shape : RopeCases()) {
    for (const bool norm : {false, true}) {
      shape.norm_q = norm;
      shape.norm_k = norm;
      shape.norm_eps = 0.25F;  // so much that it shows
      SCOPED_TRACE(TextOf(shape));
      const RopeRig rig(shape, tokens);
      const std::vector<float> values = rig.RandomInputs<Bf16Bits>();
      const Results expected = rig.Reference<float>(values);
      const auto expected_qkv = rig.Spread(expected.qkv, shape.width() + shape.gap);
      const auto [qkv, kv] = rig.Emulate<float, float>(values, HostCta::Order::kForward);
      for (size_t i = 0; i < qkv.size(); ++i) {
        ASSERT_NEAR(qkv[i], expected_qkv[i], 2e-6 * std::max(1.0F, std::abs(expected_qkv[i])));
      }
      for (size_t i = 0; i < kv.size(); ++i) {
        ASSERT_NEAR(kv[i], expected.kv[i], 2e-6 * std::max(1.0F, std::abs(expected.kv[i])));
      }
      const auto codes = rig.Emulate<Bf16Bits, E4m3Bits>(values, HostCta::Order::kForward).second;
      const std::vector<float> expected_codes = rig.Reference<E4m3Bits>(values).kv;
      for (size_t i = 0; i < codes.size(); ++i) {
        // A number in the middle between two codes may have gone to either.
        ASSERT_NEAR(static_cast<float>(codes[i].bits), expected_codes[i], 1) << i;
      }
    }
  }
}

// Zeros in its place would look like an answer.
TEST(RopeValuesTest, AHeadWhoseSquaresOverflowIsNan) {
  const Tokens tokens(/*one=*/true);
  const RopeCase shape = {.head_dim = 8, .norm_q = true, .norm_k = true};
  const RopeRig rig(shape, tokens);
  std::vector<float> values = rig.ExactInputs(/*even=*/true);
  std::fill_n(values.begin(), 2 * shape.head_dim, 1e30F);
  const auto [qkv, kv] = rig.Emulate<float, E4m3Bits>(values, HostCta::Order::kForward);
  const std::vector<float> expected = rig.Reference<E4m3Bits>(values).kv;
  for (int i = 0; i < shape.head_dim; ++i) EXPECT_TRUE(std::isnan(qkv[static_cast<size_t>(i)]));
  int nans = 0;
  int equal = 0;
  for (size_t i = 0; i < kv.size(); ++i) {
    nans += (kv[i].bits & 0x7f) == 0x7f ? 1 : 0;
    equal += kv[i].bits == static_cast<uint8_t>(expected[i]) ? 1 : 0;
  }
  EXPECT_EQ(nans, shape.head_dim);
  EXPECT_EQ(equal, static_cast<int>(kv.size()) - shape.head_dim) << "only K differs";
}

}  // namespace
}  // namespace baton::kernels::cuda
