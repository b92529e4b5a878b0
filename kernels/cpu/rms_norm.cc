#include "kernels/cpu/rms_norm.h"

#include "kernels/cpu/inverse_rms.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rms_norm.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/vec-inl.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

template <typename In>
float InverseRmsOf(const In* x, int64_t cols, float eps) {
  FloatVec sums[4] = {hn::Zero(kFloat), hn::Zero(kFloat), hn::Zero(kFloat), hn::Zero(kFloat)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= cols; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int part = 0; part < 4; ++part) {
      const auto v = LoadAsF32(x + i + part * kLanes);
      sums[part] = hn::MulAdd(v, v, sums[part]);
    }
  }
  for (; i < cols; i += kLanes) {
    const auto v = LoadPartial(x + i, cols - i);
    sums[0] = hn::MulAdd(v, v, sums[0]);
  }
  const float total = Sum(hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])));
  return InverseRms(total, cols, eps);
}

template <typename In, typename Out>
void NormRow(const In* x, const float* weight, float eps, int64_t cols, Out* out) {
  const auto inverse = hn::Set(kFloat, InverseRmsOf(x, cols, eps));
  ForEachVector(cols, [&](int64_t i, int64_t count) {
    const auto scaled = hn::Mul(LoadPartial(x + i, count), inverse);
    StorePartial(hn::Mul(scaled, LoadPartial(weight + i, count)), out + i, count);
  });
}

void RmsNormRows(Matrix in, const float* weight, float eps, Matrix out, int64_t begin,
                 int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const void* x = in.row(row);
    void* y = out.row(row);
    const bool f32_in = in.dtype == DType::kF32;
    const bool f32_out = out.dtype == DType::kF32;
    if (f32_in && f32_out) {
      NormRow(static_cast<const float*>(x), weight, eps, in.cols, static_cast<float*>(y));
    } else if (f32_in) {
      NormRow(static_cast<const float*>(x), weight, eps, in.cols, static_cast<uint16_t*>(y));
    } else if (f32_out) {
      NormRow(static_cast<const uint16_t*>(x), weight, eps, in.cols, static_cast<float*>(y));
    } else {
      NormRow(static_cast<const uint16_t*>(x), weight, eps, in.cols, static_cast<uint16_t*>(y));
    }
  }
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#if HWY_ONCE
namespace baton::kernels::cpu {

RmsNormFn ChooseRmsNorm(Isa isa) {
  return isa == Isa::kAvx512 ? &N_AVX3::RmsNormRows : &N_AVX2::RmsNormRows;
}

}  // namespace baton::kernels::cpu
#endif
