#include "kernels/cpu/silu_mul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/silu_mul.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/vec-inl.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

template <typename T>
void SiluMulRow(const T* gate, const T* up, int64_t cols, T* out) {
  const auto one = hn::Set(kFloat, 1.0f);
  ForEachVector(cols, [&](int64_t i, int64_t count) {
    const auto g = LoadPartial(gate + i, count);
    const auto silu = hn::Div(g, hn::Add(one, Exp(hn::Neg(g))));
    StorePartial(hn::Mul(silu, LoadPartial(up + i, count)), out + i, count);
  });
}

void SiluMulRows(Matrix gate_up, Matrix out, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    if (gate_up.dtype == DType::kF32) {
      const float* gate = static_cast<const float*>(gate_up.row(row));
      SiluMulRow(gate, gate + out.cols, out.cols, static_cast<float*>(out.row(row)));
    } else {
      const uint16_t* gate = static_cast<const uint16_t*>(gate_up.row(row));
      SiluMulRow(gate, gate + out.cols, out.cols, static_cast<uint16_t*>(out.row(row)));
    }
  }
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#if HWY_ONCE
namespace baton::kernels::cpu {

SiluMulFn ChooseSiluMul(Isa isa) {
  return isa == Isa::kAvx512 ? &N_AVX3::SiluMulRows : &N_AVX2::SiluMulRows;
}

}  // namespace baton::kernels::cpu
#endif
