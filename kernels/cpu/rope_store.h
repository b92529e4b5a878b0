#pragma once

#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/isa.h"

namespace baton::kernels::cpu {

// The cosines and sines that the tokens of a step are rotated by, times the attention factor:
// [tokens, head_dim / 2] each. They are the same for all layers, so they are computed once a step.
class RopeTable {
 public:
  void Reset() { inv_freq_ = nullptr; }
  // Fills the table unless it holds these positions and this rope already.
  void Update(std::span<const int32_t> positions, const RopeShape& rope);
  const float* cosine(int64_t token) const { return cosine_.data() + token * half_; }
  const float* sine(int64_t token) const { return sine_.data() + token * half_; }

 private:
  const float* inv_freq_ = nullptr;
  int64_t half_ = 0;
  float factor_ = 0;
  std::vector<float> cosine_;
  std::vector<float> sine_;
};

// What all tokens of a call of Backend::RopeAndStoreKv share.
struct RopeStoreArgs {
  Matrix qkv;
  PagedKv kv;
  int layer = 0;
  AttentionShape shape;
  QkNorm norm;
};

// Does Backend::RopeAndStoreKv for row `token` of qkv. K and V go to position `in_block` of
// `block`.
using RopeStoreFn = void (*)(const RopeStoreArgs& args, int64_t token, const float* cosine,
                             const float* sine, std::byte* block, int in_block);
RopeStoreFn ChooseRopeStore(Isa isa);

}  // namespace baton::kernels::cpu
