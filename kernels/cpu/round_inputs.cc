#include "kernels/cpu/round_inputs.h"

#include <algorithm>
#include <cmath>

#include "kernels/float_convert.h"
#include "kernels/rounded_inputs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/round_inputs.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/vec-inl.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

constexpr int64_t kMostBlock = 32;

// The inputs of columns [begin, begin + count) in fp32; beyond the row they are 0.
template <typename T>
HWY_INLINE void LoadBlock(const RoundTask& task, const T* from, int64_t begin, int64_t count,
                          float* block) {
  const int64_t there = std::min(count, task.in.cols - begin);
  if (task.input_of != nullptr) {
    for (int64_t i = 0; i < there; ++i) {
      block[i] = LoadElement(from, task.in.dtype, task.input_of[begin + i]);
    }
    std::fill(block + std::max<int64_t>(there, 0), block + count, 0.0f);
    return;
  }
  for (int64_t i = 0; i < count; i += kLanes) {
    const auto values = there > i ? LoadPartial(from + begin + i, there - i) : hn::Zero(kFloat);
    hn::Store(values, kFloat, block + i);
  }
}

// Returns the sum of the codes.
HWY_INLINE int32_t RoundBlock(const float* inputs, int64_t count, RoundedBlock& block) {
  const hn::RebindToSigned<FloatTag> di32;
  const hn::Rebind<int8_t, FloatTag> di8;
  // Magnitudes order as their bits do, infinity and NaN above all others.
  auto largest = hn::Zero(di32);
  for (int64_t i = 0; i < count; i += kLanes) {
    largest = hn::Max(largest, hn::BitCast(di32, hn::Abs(hn::Load(kFloat, inputs + i))));
  }
  const InputScale scale = InputScale::Of(hn::GetLane(hn::MaxOfLanes(di32, largest)));
  block.scale = scale.scale;
  if (!scale.rounds) {
    std::fill_n(block.codes, count, int8_t{0});
    return 0;
  }
  const auto factor = hn::Set(kFloat, scale.factor);
  auto sum = hn::Zero(di32);
  for (int64_t i = 0; i < count; i += kLanes) {
    const auto code = hn::NearestInt(hn::Mul(hn::Load(kFloat, inputs + i), factor));
    sum = hn::Add(sum, code);
    hn::StoreU(hn::DemoteTo(di8, code), di8, block.codes + i);
  }
  return hn::GetLane(hn::SumOfLanes(di32, sum));
}

// Rounds row `row` of a tile.
template <typename T>
void RoundRow(const RoundTask& task, int64_t tile, int64_t row) {
  const QuantizedLayout& layout = *task.rows.layout;
  const int64_t width = layout.block();
  const int64_t in_group = layout.group / width;
  const int64_t height = task.rows.Height(tile);
  const T* const from = static_cast<const T*>(task.in.row(task.rows.First(tile) + row));
  RoundedBlock* to = task.rows.Blocks(tile) + row;
  float* sums = task.rows.Sums(tile);
  HWY_ALIGN float inputs[kMostBlock];
  for (int64_t group = 0; group < layout.groups; ++group) {
    float group_sum = 0;
    for (int64_t i = group * in_group; i < (group + 1) * in_group; ++i, to += height) {
      LoadBlock(task, from, i * width, width, inputs);
      const int32_t sum = RoundBlock(inputs, width, *to);
      to->start = -layout.zero * sum;
      group_sum = std::fma(to->scale, static_cast<float>(sum), group_sum);
    }
    if (sums != nullptr) sums[group * height + row] = group_sum;
  }
}

void RoundTiles(const RoundTask& task, int64_t begin, int64_t end) {
  for (int64_t tile = begin; tile < end; ++tile) {
    for (int64_t row = 0; row < task.rows.Height(tile); ++row) {
      if (task.in.dtype == DType::kF32) {
        RoundRow<float>(task, tile, row);
      } else {
        RoundRow<uint16_t>(task, tile, row);
      }
    }
  }
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#if HWY_ONCE
namespace baton::kernels::cpu {

RoundInputs ChooseRoundInputs(Isa isa) {
  return isa == Isa::kAvx512 ? &N_AVX3::RoundTiles : &N_AVX2::RoundTiles;
}

}  // namespace baton::kernels::cpu
#endif
