#include <cmath>
#include <limits>

#include "kernels/cpu/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sample_ops.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/vec-inl.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Loads a vector of logits; lanes beyond `count` are -infinity.
HWY_INLINE FloatVec LoadLogits(const float* from, int64_t count) {
  if (count >= kLanes) return hn::LoadU(kFloat, from);
  float padded[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) padded[i] = i < count ? from[i] : -kInfinity;
  return hn::LoadU(kFloat, padded);
}

LogitRange Range(std::span<const float> logits) {
  const auto below = hn::Set(kFloat, -kInfinity);
  auto highest = below;
  auto lowest = hn::Set(kFloat, kInfinity);
  // 0 * x is NaN where x is NaN or infinite; -infinity is allowed, so it is taken out first.
  auto poison = hn::Zero(kFloat);
  ForEachVector(static_cast<int64_t>(logits.size()), [&](int64_t i, int64_t count) {
    const auto x = LoadLogits(logits.data() + i, count);
    const auto masked = hn::Eq(x, below);
    highest = hn::Max(highest, x);
    lowest = hn::Min(lowest, hn::IfThenElse(masked, lowest, x));
    poison = hn::MulAdd(hn::IfThenZeroElse(masked, x), hn::Zero(kFloat), poison);
  });
  LogitRange range;
  range.highest = Highest(highest);
  range.lowest = hn::GetLane(hn::MinOfLanes(kFloat, lowest));
  range.valid = Sum(poison) == 0 && range.highest != -kInfinity;
  return range;
}

template <bool kBeforeMarked>
HWY_INLINE void SumPart(const float* logits, int64_t size, float highest_value, float mark,
                        bool marked, ExpSums& sums) {
  const hn::Repartition<double, FloatTag> dd;
  const hn::Rebind<float, decltype(dd)> half;
  const auto highest = hn::Set(kFloat, highest_value);
  const auto limit = hn::Set(kFloat, mark);
  auto total = hn::Zero(dd);
  auto weighted = hn::Zero(dd);
  ForEachVector(size, [&](int64_t i, int64_t count) {
    const auto x = LoadLogits(logits + i, count);
    const auto shifted = hn::Sub(x, highest);
    const auto weight = Exp(shifted);
    const auto product =
        hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(kFloat)), hn::Mul(weight, shifted));
    total = hn::Add(total, hn::Add(hn::PromoteTo(dd, hn::LowerHalf(half, weight)),
                                   hn::PromoteTo(dd, hn::UpperHalf(half, weight))));
    weighted = hn::Add(weighted, hn::Add(hn::PromoteTo(dd, hn::LowerHalf(half, product)),
                                         hn::PromoteTo(dd, hn::UpperHalf(half, product))));
    if (marked) {
      const auto ahead = kBeforeMarked ? hn::Ge(x, limit) : hn::Gt(x, limit);
      const auto valid = hn::FirstN(kFloat, static_cast<size_t>(count));
      sums.before += static_cast<int64_t>(hn::CountTrue(kFloat, hn::And(ahead, valid)));
    }
  });
  sums.total += hn::GetLane(hn::SumOfLanes(dd, total));
  sums.weighted += hn::GetLane(hn::SumOfLanes(dd, weighted));
}

ExpSums Sums(std::span<const float> logits, float highest, int32_t marked) {
  ExpSums sums;
  const auto size = static_cast<int64_t>(logits.size());
  if (marked < 0) {
    SumPart<false>(logits.data(), size, highest, 0, false, sums);
    return sums;
  }
  // Ties rank by id: logits equal to the marked one count before its id and not after it.
  const float mark = logits[marked];
  SumPart<true>(logits.data(), marked, highest, mark, true, sums);
  SumPart<false>(logits.data() + marked, size - marked, highest, mark, true, sums);
  return sums;
}

int32_t Find(std::span<const float> logits, float value) {
  const auto wanted = hn::Set(kFloat, value);
  const auto size = static_cast<int64_t>(logits.size());
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const auto equal = hn::Eq(hn::LoadU(kFloat, logits.data() + i), wanted);
    const auto at = hn::FindFirstTrue(kFloat, equal);
    if (at >= 0) return static_cast<int32_t>(i + at);
  }
  for (; i < size; ++i) {
    if (logits[i] == value) return static_cast<int32_t>(i);
  }
  return 0;
}

void Weights(std::span<const float> logits, float highest, float temperature,
             std::span<float> out) {
  const auto top = hn::Set(kFloat, highest);
  const auto divisor = hn::Set(kFloat, temperature);
  ForEachVector(static_cast<int64_t>(logits.size()), [&](int64_t i, int64_t count) {
    const auto x = LoadPartial(logits.data() + i, count);
    StorePartial(Exp(hn::Div(hn::Sub(x, top), divisor)), out.data() + i, count);
  });
}

void Drop(std::span<const float> logits, const Cut* cut, float min_p, std::span<float> weights) {
  const hn::RebindToSigned<FloatTag> di32;
  const auto least = hn::Set(kFloat, min_p);
  const auto limit = hn::Set(kFloat, cut != nullptr ? cut->logit : -kInfinity);
  const auto last = hn::Set(di32, cut != nullptr ? cut->id : std::numeric_limits<int32_t>::max());
  ForEachVector(static_cast<int64_t>(logits.size()), [&](int64_t i, int64_t count) {
    const auto x = LoadPartial(logits.data() + i, count);
    const auto weight = LoadPartial(weights.data() + i, count);
    const auto id = hn::Iota(di32, static_cast<int32_t>(i));
    const auto tied = hn::And(hn::Eq(x, limit), hn::RebindMask(kFloat, hn::Not(hn::Gt(id, last))));
    const auto kept = hn::And(hn::Or(hn::Gt(x, limit), tied), hn::Ge(weight, least));
    StorePartial(hn::IfThenElseZero(kept, weight), weights.data() + i, count);
  });
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#if HWY_ONCE
namespace baton::kernels::cpu {

SampleOps ChooseSampleOps(Isa isa) {
  if (isa == Isa::kAvx512) {
    return {&N_AVX3::Range, &N_AVX3::Sums, &N_AVX3::Find, &N_AVX3::Weights, &N_AVX3::Drop};
  }
  return {&N_AVX2::Range, &N_AVX2::Sums, &N_AVX2::Find, &N_AVX2::Weights, &N_AVX2::Drop};
}

}  // namespace baton::kernels::cpu
#endif
