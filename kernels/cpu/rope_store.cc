#include "kernels/cpu/rope_store.h"

#include <cmath>

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
  const auto inverse = hn::Set(kFloat, 1.0f / std::sqrt(Sum(sum) / static_cast<float>(dim) + eps));
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

// Converts a head to fp32, normalises and rotates it, and writes it to `to`.
template <typename From, typename To>
void TransformHead(const From* from, int64_t dim, const Buffer* weight, float eps,
                   const float* cosine, const float* sine, To* to) {
  HWY_ALIGN float head[kMaxHeadDim];
  ConvertRow(from, dim, head);
  if (weight != nullptr) NormHead(head, dim, static_cast<const float*>(weight->data()), eps);
  RotateHead(head, dim / 2, cosine, sine);
  ConvertRow(head, dim, to);
}

template <typename T, typename Kv>
void StoreToken(const RopeStoreArgs& args, T* row, const float* cosine, const float* sine,
                Kv* block, int in_block) {
  const int64_t dim = args.shape.head_dim;
  for (int h = 0; h < args.shape.q_heads; ++h) {
    T* q = row + h * dim;
    TransformHead(q, dim, args.norm.q, args.norm.eps, cosine, sine, q);
  }
  const T* k = row + args.shape.q_heads * dim;
  const T* v = k + args.shape.kv_heads * dim;
  for (int h = 0; h < args.shape.kv_heads; ++h) {
    TransformHead(k + h * dim, dim, args.norm.k, args.norm.eps, cosine, sine,
                  block + args.kv.offset(args.layer, 0, h, in_block));
    ConvertRow(v + h * dim, dim, block + args.kv.offset(args.layer, 1, h, in_block));
  }
}

template <typename T>
void StoreTokenAs(const RopeStoreArgs& args, T* row, const float* cosine, const float* sine,
                  std::byte* block, int in_block) {
  if (args.kv.layout.dtype == DType::kF32) {
    StoreToken(args, row, cosine, sine, reinterpret_cast<float*>(block), in_block);
  } else {
    StoreToken(args, row, cosine, sine, reinterpret_cast<uint16_t*>(block), in_block);
  }
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
