#include <algorithm>
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
  const hn::RebindToSigned<FloatTag> di32;
  auto masked_lanes = hn::Zero(di32);
  int64_t lanes = 0;
  ForEachVector(static_cast<int64_t>(logits.size()), [&](int64_t i, int64_t count) {
    const auto x = LoadLogits(logits.data() + i, count);
    const auto masked = hn::Eq(x, below);
    highest = hn::Max(highest, x);
    lowest = hn::Min(lowest, hn::IfThenElse(masked, lowest, x));
    poison = hn::MulAdd(hn::IfThenZeroElse(masked, x), hn::Zero(kFloat), poison);
    // A true lane of a mask is -1. The lanes beyond `count` are masked as well.
    masked_lanes = hn::Add(masked_lanes, hn::VecFromMask(di32, hn::RebindMask(di32, masked)));
    lanes += kLanes;
  });
  LogitRange range;
  range.highest = Highest(highest);
  range.lowest = hn::GetLane(hn::MinOfLanes(kFloat, lowest));
  range.finite = lanes + hn::GetLane(hn::SumOfLanes(di32, masked_lanes));
  range.valid = Sum(poison) == 0 && range.highest != -kInfinity;
  return range;
}

// The order of the sums is the same whatever is marked: a token's logprob says nothing of which ids
// end the answer.
ExpSums Sums(std::span<const float> logits, float highest_value, int32_t marked) {
  const hn::Repartition<double, FloatTag> dd;
  const hn::Rebind<float, decltype(dd)> half;
  const auto highest = hn::Set(kFloat, highest_value);
  const auto mark = hn::Set(kFloat, marked < 0 ? 0 : logits[static_cast<size_t>(marked)]);
  auto total = hn::Zero(dd);
  auto weighted = hn::Zero(dd);
  ExpSums sums;
  ForEachVector(static_cast<int64_t>(logits.size()), [&](int64_t i, int64_t count) {
    const auto x = LoadLogits(logits.data() + i, count);
    const auto shifted = hn::Sub(x, highest);
    const auto weight = Exp(shifted);
    const auto product =
        hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(kFloat)), hn::Mul(weight, shifted));
    total = hn::Add(total, hn::Add(hn::PromoteTo(dd, hn::LowerHalf(half, weight)),
                                   hn::PromoteTo(dd, hn::UpperHalf(half, weight))));
    weighted = hn::Add(weighted, hn::Add(hn::PromoteTo(dd, hn::LowerHalf(half, product)),
                                         hn::PromoteTo(dd, hn::UpperHalf(half, product))));
    if (marked < 0) return;
    // Of logits that tie, the lower id ranks before the other.
    const auto lower_ids = std::clamp<int64_t>(marked - i, 0, kLanes);
    const auto tied = hn::And(hn::Eq(x, mark), hn::FirstN(kFloat, static_cast<size_t>(lower_ids)));
    sums.before += static_cast<int64_t>(hn::CountTrue(kFloat, hn::Or(hn::Gt(x, mark), tied)));
  });
  sums.total = hn::GetLane(hn::SumOfLanes(dd, total));
  sums.weighted = hn::GetLane(hn::SumOfLanes(dd, weighted));
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
  const auto lanes = hn::Iota(di32, 0);
  const auto least = hn::Set(kFloat, min_p);
  const auto limit = hn::Set(kFloat, cut != nullptr ? cut->logit : -kInfinity);
  const auto last = hn::Set(di32, cut != nullptr ? cut->id : std::numeric_limits<int32_t>::max());
  ForEachVector(static_cast<int64_t>(logits.size()), [&](int64_t i, int64_t count) {
    const auto x = LoadPartial(logits.data() + i, count);
    const auto weight = LoadPartial(weights.data() + i, count);
    const auto id = hn::Add(lanes, hn::Set(di32, static_cast<int32_t>(i)));
    const auto tied = hn::And(hn::Eq(x, limit), hn::RebindMask(kFloat, hn::Not(hn::Gt(id, last))));
    const auto kept = hn::And(hn::Or(hn::Gt(x, limit), tied), hn::Ge(weight, least));
    StorePartial(hn::IfThenElseZero(kept, weight), weights.data() + i, count);
  });
}

// The logits of a half of a vector and their nucleus masses as doubles. A mass is an integer of at
// most 40 bits, so a sum of fewer than 2^13 of them is exact.
template <typename D>
struct HalfRow {
  template <typename Half>
  HWY_INLINE HalfRow(Half logits, Half weights)
      : x(hn::PromoteTo(D(), logits)),
        mass(hn::Floor(hn::Mul(hn::PromoteTo(D(), weights), hn::Set(D(), 0x1.0p40)))) {}
  HWY_INLINE hn::Vec<D> MassFrom(float from) const {
    return hn::IfThenElseZero(hn::Ge(x, hn::Set(D(), static_cast<double>(from))), mass);
  }
  hn::Vec<D> x, mass;
};

template <bool kMasses>
HWY_INLINE void AddTails(const float* logits, const float* weights, int64_t size,
                         const float (&from)[kTails], float to, Tails& tails) {
  using D = hn::Repartition<double, FloatTag>;
  const D dd;
  const hn::Rebind<float, D> half;
  const hn::RebindToSigned<FloatTag> di32;
  const auto least = hn::Set(kFloat, from[0]);
  const auto limit = hn::Set(kFloat, to);
  hn::Vec<D> sums[kTails];
  hn::Vec<decltype(di32)> counts[kTails];
  for (int t = 0; t < kTails; ++t) {
    sums[t] = hn::Zero(dd);
    counts[t] = hn::Zero(di32);
  }
  ForEachVector(size, [&](int64_t i, int64_t count) {
    const auto x = LoadLogits(logits + i, count);
    const auto inside = hn::And(hn::FirstN(kFloat, static_cast<size_t>(count)),
                                hn::And(hn::Ge(x, least), hn::Lt(x, limit)));
    if (hn::AllFalse(kFloat, inside)) return;
    for (int t = 0; t < kTails; ++t) {
      const auto in = hn::And(inside, hn::Ge(x, hn::Set(kFloat, from[t])));
      const auto one = hn::IfThenElseZero(hn::RebindMask(di32, in), hn::Set(di32, 1));
      counts[t] = hn::Add(counts[t], one);
    }
    if constexpr (kMasses) {
      const auto weight = hn::IfThenElseZero(inside, LoadPartial(weights + i, count));
      const HalfRow<D> low(hn::LowerHalf(half, x), hn::LowerHalf(half, weight));
      const HalfRow<D> high(hn::UpperHalf(half, x), hn::UpperHalf(half, weight));
      sums[0] = hn::Add(sums[0], hn::Add(low.mass, high.mass));
      for (int t = 1; t < kTails; ++t) {
        sums[t] = hn::Add(sums[t], hn::Add(low.MassFrom(from[t]), high.MassFrom(from[t])));
      }
    }
  });
  for (int t = 0; t < kTails; ++t) {
    tails.count[t] += hn::GetLane(hn::SumOfLanes(di32, counts[t]));
    tails.mass[t] += static_cast<uint64_t>(hn::GetLane(hn::SumOfLanes(dd, sums[t])));
  }
}

Tails TailsOf(std::span<const float> logits, std::span<const float> weights,
              const float (&from)[kTails], float to) {
  constexpr int64_t kExact = 4096;  // so few masses have an exact sum
  Tails tails;
  for (int64_t i = 0; i < std::ssize(logits); i += kExact) {
    const int64_t count = std::min<int64_t>(kExact, std::ssize(logits) - i);
    if (weights.empty()) {
      AddTails<false>(logits.data() + i, nullptr, count, from, to, tails);
    } else {
      AddTails<true>(logits.data() + i, weights.data() + i, count, from, to, tails);
    }
  }
  return tails;
}

size_t Gather(std::span<const float> logits, float from, float to, std::span<int32_t> ids) {
  static_assert(kLanes <= static_cast<int64_t>(kGatherRoom));
  const hn::RebindToSigned<FloatTag> di32;
  const auto lanes = hn::Iota(di32, 0);
  const auto least = hn::Set(kFloat, from);
  const auto limit = hn::Set(kFloat, to);
  size_t found = 0;
  ForEachVector(static_cast<int64_t>(logits.size()), [&](int64_t i, int64_t count) {
    const auto x = LoadLogits(logits.data() + i, count);
    const auto in = hn::And(hn::FirstN(kFloat, static_cast<size_t>(count)),
                            hn::And(hn::Ge(x, least), hn::Lt(x, limit)));
    if (hn::AllFalse(kFloat, in)) return;
    const auto id = hn::Add(lanes, hn::Set(di32, static_cast<int32_t>(i)));
    // Compressed in a register: to memory it is slow on some machines.
    const auto mask = hn::RebindMask(di32, in);
    hn::StoreU(hn::Compress(id, mask), di32, ids.data() + found);
    found += hn::CountTrue(di32, mask);
  });
  return found;
}

void Stretches(std::span<const float> weights, std::span<double> sums) {
  const hn::Repartition<double, FloatTag> dd;
  const hn::Rebind<float, decltype(dd)> half;
  for (size_t s = 0; s < sums.size(); ++s) {
    const size_t begin = s * kStretch;
    const auto size = static_cast<int64_t>(std::min(kStretch, weights.size() - begin));
    auto low = hn::Zero(dd);
    auto high = hn::Zero(dd);
    ForEachVector(size, [&](int64_t i, int64_t count) {
      const auto weight = LoadPartial(weights.data() + begin + i, count);
      low = hn::Add(low, hn::PromoteTo(dd, hn::LowerHalf(half, weight)));
      high = hn::Add(high, hn::PromoteTo(dd, hn::UpperHalf(half, weight)));
    });
    sums[s] = hn::GetLane(hn::SumOfLanes(dd, hn::Add(low, high)));
  }
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#if HWY_ONCE
namespace baton::kernels::cpu {

SampleOps ChooseSampleOps(Isa isa) {
  if (isa == Isa::kAvx512) {
    return {&N_AVX3::Range, &N_AVX3::Sums,    &N_AVX3::Find,   &N_AVX3::Weights,
            &N_AVX3::Drop,  &N_AVX3::TailsOf, &N_AVX3::Gather, &N_AVX3::Stretches};
  }
  return {&N_AVX2::Range, &N_AVX2::Sums,    &N_AVX2::Find,   &N_AVX2::Weights,
          &N_AVX2::Drop,  &N_AVX2::TailsOf, &N_AVX2::Gather, &N_AVX2::Stretches};
}

}  // namespace baton::kernels::cpu
#endif
