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

// The inputs of a block of columns in fp32.
template <int kWidth>
struct Inputs {
  static constexpr int kVectors = kWidth / static_cast<int>(kLanes);
  FloatVec vectors[kVectors];
};

// The block that begins at `begin`; beyond the row it is 0.
template <int kWidth, typename T>
HWY_INLINE Inputs<kWidth> LoadBlock(const RoundTask& task, const T* from, int64_t begin) {
  Inputs<kWidth> inputs;
  const int64_t there = std::clamp<int64_t>(task.in.cols - begin, 0, kWidth);
  if (task.input_of == nullptr && there == kWidth) {
    for (int i = 0; i < inputs.kVectors; ++i) {
      inputs.vectors[i] = LoadAsF32(from + begin + i * kLanes);
    }
    return inputs;
  }
  HWY_ALIGN float block[kWidth] = {};
  for (int64_t i = 0; i < there; ++i) {
    const int64_t input = task.input_of != nullptr ? task.input_of[begin + i] : begin + i;
    block[i] = LoadElement(from, task.in.dtype, input);
  }
  for (int i = 0; i < inputs.kVectors; ++i) {
    inputs.vectors[i] = hn::Load(kFloat, block + i * kLanes);
  }
  return inputs;
}

// Returns the sum of the codes.
template <int kWidth>
HWY_INLINE int32_t RoundBlock(const Inputs<kWidth>& inputs, RoundedBlock& block) {
  const hn::RebindToSigned<FloatTag> di32;
  const hn::Rebind<int8_t, FloatTag> di8;
  // Magnitudes order as their bits do, infinity and NaN above all others.
  auto largest = hn::Zero(di32);
  for (const FloatVec& vector : inputs.vectors) {
    largest = hn::Max(largest, hn::BitCast(di32, hn::Abs(vector)));
  }
  const InputScale scale = InputScale::Of(hn::GetLane(hn::MaxOfLanes(di32, largest)));
  block.scale = scale.scale;
  if (!scale.rounds) {
    std::fill_n(block.codes, kWidth, int8_t{0});
    return 0;
  }
  const auto factor = hn::Set(kFloat, scale.factor);
  auto sum = hn::Zero(di32);
  int8_t* to = block.codes;
  for (const FloatVec& vector : inputs.vectors) {
    const auto code = hn::NearestInt(hn::Mul(vector, factor));
    sum = hn::Add(sum, code);
    hn::StoreU(hn::DemoteTo(di8, code), di8, to);
    to += kLanes;
  }
  return hn::GetLane(hn::SumOfLanes(di32, sum));
}

// Rounds a group of columns in all rows of a tile.
template <int kWidth, typename T>
void RoundGroup(const RoundTask& task, int64_t tile, int64_t group) {
  const QuantizedLayout& layout = *task.rows.layout;
  const int64_t in_group = layout.group / kWidth;
  const int64_t height = task.rows.Height(tile);
  float* const sums = task.rows.Sums(tile);
  for (int64_t row = 0; row < height; ++row) {
    const T* const from = static_cast<const T*>(task.in.row(task.rows.First(tile) + row));
    RoundedBlock* to = task.rows.Blocks(tile) + group * in_group * height + row;
    float group_sum = 0;
    for (int64_t i = group * in_group; i < (group + 1) * in_group; ++i, to += height) {
      const int32_t sum = RoundBlock(LoadBlock<kWidth>(task, from, i * kWidth), *to);
      to->start = -layout.zero * sum;
      if (sums != nullptr) group_sum = std::fma(to->scale, static_cast<float>(sum), group_sum);
    }
    if (sums != nullptr) sums[group * height + row] = group_sum;
  }
}

template <typename T>
void RoundGroupsOf(const RoundTask& task, int64_t begin, int64_t end) {
  const QuantizedLayout& layout = *task.rows.layout;
  for (int64_t index = begin; index < end; ++index) {
    if (layout.block() == 16) {
      RoundGroup<16, T>(task, index / layout.groups, index % layout.groups);
    } else {
      RoundGroup<32, T>(task, index / layout.groups, index % layout.groups);
    }
  }
}

void RoundGroups(const RoundTask& task, int64_t begin, int64_t end) {
  if (task.in.dtype == DType::kF32) {
    RoundGroupsOf<float>(task, begin, end);
  } else {
    RoundGroupsOf<uint16_t>(task, begin, end);
  }
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#if HWY_ONCE
namespace baton::kernels::cpu {

RoundInputs ChooseRoundInputs(Isa isa) {
  return isa == Isa::kAvx512 ? &N_AVX3::RoundGroups : &N_AVX2::RoundGroups;
}

}  // namespace baton::kernels::cpu
#endif
