#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/cta/rope_rows.h"
#include "kernels/host_memory.h"
#include "kernels/reference/attention.h"
#include "tests/kernels/cuda/cta/element_values.h"
#include "tests/kernels/cuda/cta/host_cta.h"

// RopeAndStoreKv by the kernel's threads and by the reference, of the same rows.
namespace baton::kernels::cuda {

inline constexpr float kUntouched = -7.5F;  // of every type
inline constexpr int kLayer = 1;
inline constexpr int kLayers = 2;
inline constexpr int kBlocks = 14;
inline constexpr int kPadding = 2;  // rows behind those of the sequences

struct RopeCase {
  int q_heads = 1;
  int kv_heads = 1;
  int head_dim = 64;
  int block_size = 4;
  int gap = 0;  // elements between rows
  float attention_factor = 1;
  float q_scale = 1;  // a power of two
  float k_scale = 1;  // of a cache of codes alone
  float v_scale = 1;
  float norm_eps = 0;
  bool norm_q = false;
  bool norm_k = false;

  int width() const { return (q_heads + 2 * kv_heads) * head_dim; }
};

// The tokens of some sequences and where they lie in the cache.
struct Tokens {
  explicit Tokens(bool one) {
    if (!one) Add(3, 6, {7, 2, 4, 11, 8, 9, 10, 12, 13});
    Add(one ? 0 : 4, 1, {5, 0, 3, 1, 6});
  }
  void Add(int32_t first, int32_t count, std::vector<int32_t> table) {
    tables.push_back(std::move(table));
    const auto begin = static_cast<int32_t>(positions.size());
    for (int32_t i = 0; i < count; ++i) positions.push_back(first + i);
    sequences.push_back({begin, count, first + count, tables.back()});
  }
  StepLayout layout() const { return {.positions = positions, .sequences = sequences}; }
  int64_t rows() const { return static_cast<int64_t>(positions.size()); }

  std::vector<std::vector<int32_t>> tables;
  std::vector<int32_t> positions;
  std::vector<StepLayout::Sequence> sequences;
};

struct Results {
  std::vector<float> qkv;  // [rows, width]
  std::vector<float> kv;   // of the arena; codes as numbers
};

// A cache of elements of Kv, all kUntouched or, as codes, 0x5a.
template <typename Kv>
std::vector<Kv> EmptyCache(size_t elements) {
  if constexpr (std::is_same_v<Kv, E4m3Bits>) {
    return std::vector<Kv>(elements, E4m3Bits{0x5a});
  } else {
    return Narrowed<Kv>(std::vector<float>(elements, kUntouched));
  }
}

class RopeRig {
 public:
  RopeRig(const RopeCase& shape, const Tokens& tokens) : shape_(shape), tokens_(tokens) {
    std::mt19937 random(5);
    std::uniform_int_distribution<int> powers(-2, 2);
    for (int i = 0; i < shape.head_dim / 2; ++i) {
      inv_freq_.push_back(std::pow(0.9F, static_cast<float>(i)));
    }
    for (auto* norm : {&q_norm_, &k_norm_}) {
      *norm = AllocateHost(static_cast<size_t>(shape.head_dim) * sizeof(float)).value();
      for (int i = 0; i < shape.head_dim; ++i) {
        Floats(**norm)[i] = std::ldexp(i % 3 == 0 ? -1.0F : 1.0F, powers(random));
      }
    }
  }

  // [rows and padding, width] powers of two: their products with a sine are exact. All of a head
  // have one magnitude with `even`, and so the head has an exact norm.
  std::vector<float> ExactInputs(bool even) const {
    std::mt19937 random(7);
    std::uniform_int_distribution<int> powers(-3, 3);
    std::vector<float> values(static_cast<size_t>(rows() * shape_.width()));
    int power = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!even || i % static_cast<size_t>(shape_.head_dim) == 0) power = powers(random);
      values[i] = std::ldexp(random() % 2 == 0 ? -1.0F : 1.0F, power);
    }
    return values;
  }
  template <typename T>
  std::vector<float> RandomInputs() const {
    std::mt19937 random(9);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(rows() * shape_.width()));
    for (float& value : values) value = normal(random);
    return Widened(Narrowed<T>(values));
  }

  int64_t rows() const { return tokens_.rows() + kPadding; }
  KvLayout Layout(DType dtype) const {
    return {.dtype = dtype,
            .block_size = shape_.block_size,
            .layers = kLayers,
            .kv_heads = shape_.kv_heads,
            .head_dim = shape_.head_dim};
  }

  // As LaunchRopeStore: the elements of qkv and of the arena.
  template <typename T, typename Kv>
  std::pair<std::vector<T>, std::vector<Kv>> Emulate(const std::vector<float>& values,
                                                     HostCta::Order order) const {
    const int64_t stride = shape_.width() + shape_.gap;
    std::vector<T> qkv = Narrowed<T>(Spread(values, stride));
    const KvLayout layout = Layout(DType::kF32);
    const size_t plane = layout.plane_bytes() / sizeof(float);
    std::vector<Kv> arena = EmptyCache<Kv>(kBlocks * layout.block_elements());
    std::vector<int32_t> positions = tokens_.positions;
    positions.resize(static_cast<size_t>(rows()), 0);
    const std::vector<int64_t> cache_index = CacheIndex();
    const RopeStoreArgs args = {.qkv = {qkv.data(), DType::kF32, rows(), shape_.width(), stride},
                                .positions = positions.data(),
                                .cache_index = cache_index.data(),
                                .inv_freq = inv_freq_.data(),
                                .attention_factor = shape_.attention_factor,
                                .q_norm = shape_.norm_q ? Floats(*q_norm_) : nullptr,
                                .k_norm = shape_.norm_k ? Floats(*k_norm_) : nullptr,
                                .norm_eps = shape_.norm_eps,
                                .q_scale = shape_.q_scale,
                                .q_heads = shape_.q_heads,
                                .kv_heads = shape_.kv_heads,
                                .head_dim = shape_.head_dim,
                                .k_scale = shape_.k_scale,
                                .v_scale = shape_.v_scale,
                                .block_size = shape_.block_size,
                                .k = arena.data() + 2 * kLayer * plane,
                                .v = arena.data() + (2 * kLayer + 1) * plane,
                                .block_stride = static_cast<int64_t>(layout.block_elements())};
    for (int64_t row = 0; row < rows(); ++row) {
      HostCta cta(kRopeThreads, order);
      const auto shared = std::make_unique<RopeShared>();
      std::fill_n(shared->cosines, kRopePairs, kNan);
      std::fill_n(shared->sines, kRopePairs, kNan);
      RopeAndStoreRow<T, Kv>(cta, args, row, *shared);
    }
    return {std::move(qkv), std::move(arena)};
  }

  // The reference in fp32, with the cache in fp32 or in codes. The padding is a sequence of its
  // own, at position 0, whose blocks are dropped.
  template <typename Kv>
  Results Reference(const std::vector<float>& values) const {
    constexpr bool kCodes = std::is_same_v<Kv, E4m3Bits>;
    const KvLayout layout = Layout(kCodes ? DType::kFp8 : DType::kF32);
    using Stored = std::conditional_t<kCodes, E4m3Bits, float>;
    std::vector<Stored> arena = EmptyCache<Stored>((kBlocks + 1) * layout.block_elements());
    StepLayout step = tokens_.layout();
    std::vector<int32_t> positions = tokens_.positions;
    std::vector<StepLayout::Sequence> sequences = tokens_.sequences;
    const std::vector<int32_t> dropped = {kBlocks};
    for (int i = 0; i < kPadding; ++i) {
      sequences.push_back({static_cast<int32_t>(positions.size()), 1, 1, dropped});
      positions.push_back(0);
    }
    step.positions = positions;
    step.sequences = sequences;
    Results results = {.qkv = values};
    reference::RopeAndStoreKv(
        step,
        {.arena = reinterpret_cast<std::byte*>(arena.data()),
         .layout = layout,
         .num_blocks = kBlocks + 1},
        Matrix::Dense(results.qkv.data(), DType::kF32, rows(), shape_.width()), kLayer,
        {.q_heads = shape_.q_heads,
         .kv_heads = shape_.kv_heads,
         .head_dim = shape_.head_dim,
         .k_scale = shape_.k_scale,
         .v_scale = shape_.v_scale},
        {.inv_freq = inv_freq_, .attention_factor = shape_.attention_factor},
        {.q = shape_.norm_q ? q_norm_.get() : nullptr,
         .k = shape_.norm_k ? k_norm_.get() : nullptr,
         .eps = shape_.norm_eps});
    const size_t q_width = static_cast<size_t>(shape_.q_heads * shape_.head_dim);
    for (size_t i = 0; i < results.qkv.size(); ++i) {
      if (i % static_cast<size_t>(shape_.width()) < q_width) results.qkv[i] *= shape_.q_scale;
    }
    arena.resize(kBlocks * layout.block_elements());
    for (const Stored element : arena) {
      if constexpr (kCodes) {
        results.kv.push_back(static_cast<float>(element.bits));
      } else {
        results.kv.push_back(element);
      }
    }
    return results;
  }

  // [rows, width] with the gaps between rows, as memory has it.
  std::vector<float> Spread(const std::vector<float>& values, int64_t stride) const {
    std::vector<float> spread(static_cast<size_t>(rows() * stride), kUntouched);
    for (int64_t row = 0; row < rows(); ++row) {
      std::copy_n(values.begin() + row * shape_.width(), shape_.width(),
                  spread.begin() + row * stride);
    }
    return spread;
  }

 private:
  static float* Floats(const Buffer& buffer) {
    return static_cast<float*>(const_cast<void*>(buffer.data()));
  }
  std::vector<int64_t> CacheIndex() const {
    std::vector<int64_t> index;
    for (const StepLayout::Sequence& sequence : tokens_.sequences) {
      for (int32_t i = 0; i < sequence.num_tokens; ++i) {
        const int32_t position = tokens_.positions[static_cast<size_t>(sequence.token_begin + i)];
        const int32_t block = sequence.blocks[static_cast<size_t>(position / shape_.block_size)];
        index.push_back(int64_t{block} * shape_.block_size + position % shape_.block_size);
      }
    }
    index.resize(static_cast<size_t>(rows()), -1);
    return index;
  }

  RopeCase shape_;
  const Tokens& tokens_;
  std::vector<float> inv_freq_;
  std::unique_ptr<Buffer> q_norm_;
  std::unique_ptr<Buffer> k_norm_;
};

}  // namespace baton::kernels::cuda
