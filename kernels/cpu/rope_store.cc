#include "kernels/cpu/rope_store.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/inverse_rms.h"
#include "kernels/kv_row.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope_store.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/vec-inl.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

template <typename From, typename To>
void ConvertRow(const From* from, int64_t n, To* to) {
  ForEachVector(n, [&](int64_t i, int64_t count) {
    StorePartial(LoadPartial(from + i, count), to + i, count);
  });
}

void NormHead(float* head, int64_t dim, const float* weight, float eps) {
  auto sum = hn::Zero(kFloat);
  ForEachVector(dim, [&](int64_t i, int64_t count) {
    const auto v = LoadPartial(head + i, count);
    sum = hn::MulAdd(v, v, sum);
  });
  const auto inverse = hn::Set(kFloat, InverseRms(Sum(sum), dim, eps));
  ForEachVector(dim, [&](int64_t i, int64_t count) {
    const auto scaled = hn::Mul(LoadPartial(head + i, count), inverse);
    StorePartial(hn::Mul(scaled, LoadPartial(weight + i, count)), head + i, count);
  });
}

void RotateHead(float* head, int64_t half, const float* cosine, const float* sine) {
  ForEachVector(half, [&](int64_t i, int64_t count) {
    const auto c = LoadPartial(cosine + i, count);
    const auto s = LoadPartial(sine + i, count);
    const auto low = LoadPartial(head + i, count);
    const auto high = LoadPartial(head + half + i, count);
    StorePartial(hn::NegMulAdd(high, s, hn::Mul(low, c)), head + i, count);
    StorePartial(hn::MulAdd(low, s, hn::Mul(high, c)), head + half + i, count);
  });
}

void DivideHead(float* head, int64_t dim, float divisor) {
  ForEachVector(dim, [&](int64_t i, int64_t count) {
    StorePartial(hn::Div(LoadPartial(head + i, count), hn::Set(kFloat, divisor)), head + i, count);
  });
}

// Converts a head to fp32, normalises and rotates it.
template <typename From>
void TransformHead(const From* from, int64_t dim, const Buffer* weight, float eps,
                   const float* cosine, const float* sine, float* head) {
  ConvertRow(from, dim, head);
  if (weight != nullptr) NormHead(head, dim, static_cast<const float*>(weight->data()), eps);
  RotateHead(head, dim / 2, cosine, sine);
}

// Writes a row of the cache.
template <typename From, typename Kv>
void StoreRow(const From* from, int64_t dim, Kv* row) {
  ConvertRow(from, dim, row);
}

// As StoreInt8Row does.
template <typename From>
void StoreRow(const From* from, int64_t dim, int8_t* row) {
  const hn::RebindToSigned<FloatTag> di32;
  auto largest_bits = hn::Zero(di32);
  ForEachVector(dim, [&](int64_t i, int64_t count) {
    const auto magnitude = hn::Abs(LoadPartial(from + i, count));
    largest_bits = hn::Max(largest_bits, hn::BitCast(di32, magnitude));
  });
  const auto largest = std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(di32, largest_bits)));
  float scale = largest / 127;
  float inverse = 127 / largest;
  const bool finite = std::isfinite(largest);
  if (!finite || largest < kLeastInt8Row) {
    scale = finite ? 0 : std::numeric_limits<float>::quiet_NaN();
    std::fill_n(row, dim, int8_t{0});
  } else {
    ForEachVector(dim, [&](int64_t i, int64_t count) {
      const auto scaled = hn::Mul(LoadPartial(from + i, count), hn::Set(kFloat, inverse));
      StorePartial(scaled, row + i, count);
    });
  }
  std::memcpy(row + dim, &scale, sizeof(scale));
}

template <typename T, typename Kv>
void StoreToken(const RopeStoreArgs& args, T* row, const float* cosine, const float* sine,
                const Kv* /*type*/, std::byte* block, int in_block) {
  const int64_t dim = args.shape.head_dim;
  HWY_ALIGN float head[kMaxHeadDim];
  for (int h = 0; h < args.shape.q_heads; ++h) {
    T* q = row + h * dim;
    TransformHead(q, dim, args.norm.q, args.norm.eps, cosine, sine, head);
    ConvertRow(head, dim, q);
  }
  const auto kv_row = [&](int plane, int h) {
    return reinterpret_cast<Kv*>(block + args.kv.offset(args.layer, plane, h, in_block));
  };
  const T* k = row + args.shape.q_heads * dim;
  const T* v = k + args.shape.kv_heads * dim;
  for (int h = 0; h < args.shape.kv_heads; ++h) {
    TransformHead(k + h * dim, dim, args.norm.k, args.norm.eps, cosine, sine, head);
    if (args.shape.k_scale != 1) DivideHead(head, dim, args.shape.k_scale);
    StoreRow(head, dim, kv_row(0, h));
    if (args.shape.v_scale == 1) {
      StoreRow(v + h * dim, dim, kv_row(1, h));
    } else {
      ConvertRow(v + h * dim, dim, head);
      DivideHead(head, dim, args.shape.v_scale);
      StoreRow(head, dim, kv_row(1, h));
    }
  }
}

template <typename T>
void StoreTokenAs(const RopeStoreArgs& args, T* row, const float* cosine, const float* sine,
                  std::byte* block, int in_block) {
  ForKvType(args.kv.layout.dtype,
            [&](const auto* type) { StoreToken(args, row, cosine, sine, type, block, in_block); });
}

void RopeStoreToken(const RopeStoreArgs& args, int64_t token, const float* cosine,
                    const float* sine, std::byte* block, int in_block) {
  void* row = args.qkv.row(token);
  if (args.qkv.dtype == DType::kF32) {
    StoreTokenAs(args, static_cast<float*>(row), cosine, sine, block, in_block);
  } else {
    StoreTokenAs(args, static_cast<uint16_t*>(row), cosine, sine, block, in_block);
  }
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#if HWY_ONCE
namespace baton::kernels::cpu {

void RopeTable::Update(std::span<const int32_t> positions, const RopeShape& rope) {
  if (inv_freq_ == rope.inv_freq.data() && factor_ == rope.attention_factor) return;
  inv_freq_ = rope.inv_freq.data();
  factor_ = rope.attention_factor;
  half_ = static_cast<int64_t>(rope.inv_freq.size());
  cosine_.resize(positions.size() * rope.inv_freq.size());
  sine_.resize(cosine_.size());
  for (size_t token = 0; token < positions.size(); ++token) {
    for (int64_t i = 0; i < half_; ++i) {
      const float angle = static_cast<float>(positions[token]) * rope.inv_freq[i];
      cosine_[token * half_ + i] = std::cos(angle) * factor_;
      sine_[token * half_ + i] = std::sin(angle) * factor_;
    }
  }
}

RopeStoreFn ChooseRopeStore(Isa isa) {
  return isa == Isa::kAvx512 ? &N_AVX3::RopeStoreToken : &N_AVX2::RopeStoreToken;
}

}  // namespace baton::kernels::cpu
#endif
