#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace baton {

// Ranks that a worker may have at most; bounds what a peer can make us compute.
inline constexpr int32_t kMaxTensorParallel = 64;

// The shape of a worker's KV blocks as peers see it: plain data, comparable, printable.
//
// A block is [rank][layer][k|v][head of the rank][token][row], where a row is what the dtype makes
// of head_dim numbers, of equal size for all (kernels/paged_kv.h). The KV heads are divided among
// the ranks; where there are fewer heads than ranks, neighbouring ranks hold copies of one.
struct KvShape {
  std::string dtype;  // "float32", "bfloat16", "float16", "int8" or "fp8"
  int32_t block_size = 0;
  int32_t layers = 0;
  int32_t kv_heads = 0;  // of the model
  int32_t head_dim = 0;
  int32_t tensor_parallel = 1;  // ranks
  int32_t layout_version = 1;   // of the order above

  friend bool operator==(const KvShape&, const KvShape&) = default;

  // The heads divide among the ranks. A peer's shape may not.
  bool Divides() const {
    return 1 <= tensor_parallel && tensor_parallel <= kMaxTensorParallel && kv_heads >= 1 &&
           (kv_heads % tensor_parallel == 0 || tensor_parallel % kv_heads == 0);
  }
  int32_t heads_per_rank() const { return std::max(1, kv_heads / tensor_parallel); }
  int32_t first_head(int32_t rank) const {
    return static_cast<int32_t>(int64_t{rank} * kv_heads / tensor_parallel);
  }
  // The first rank that holds the head.
  int32_t rank_of(int32_t head) const {
    return kv_heads >= tensor_parallel ? head / heads_per_rank()
                                       : head * (tensor_parallel / kv_heads);
  }

  // The shape for people: "float32 block 16 layers 2 kv_heads 2 head_dim 64 tp 1 v1".
  std::string Describe() const {
    return dtype + " block " + std::to_string(block_size) + " layers " + std::to_string(layers) +
           " kv_heads " + std::to_string(kv_heads) + " head_dim " + std::to_string(head_dim) +
           " tp " + std::to_string(tensor_parallel) + " v" + std::to_string(layout_version);
  }
};

// Blocks of one shape can become blocks of the other by moving heads: the shapes are equal but for
// the number of ranks.
inline bool CanHandOver(const KvShape& from, const KvShape& to) {
  KvShape same_ranks = from;
  same_ranks.tensor_parallel = to.tensor_parallel;
  return same_ranks == to &&
         (from.tensor_parallel == to.tensor_parallel || (from.Divides() && to.Divides()));
}

}  // namespace baton
