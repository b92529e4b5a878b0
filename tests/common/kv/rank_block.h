#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/kv_shape.h"
#include "common/kv/block_layout.h"

namespace baton {

// A block of a worker, apart on each of its ranks.
class RankBlock final {
 public:
  explicit RankBlock(const KvShape& shape, size_t element_bytes = 4) : shape_(shape) {
    run_ = static_cast<size_t>(shape.block_size) * shape.head_dim * element_bytes;
    const size_t bytes = 2 * run_ * shape.layers * shape.heads_per_rank();
    for (int32_t rank = 0; rank < shape.tensor_parallel; ++rank) {
      memory_.emplace_back(bytes);
    }
  }

  ByteParts ranks() {
    ByteParts parts;
    for (auto& bytes : memory_) parts.emplace_back(bytes);
    return parts;
  }
  // What a byte is depends on its layer, plane, head and place alone, not on the ranks.
  void Fill(uint32_t salt) {
    ForEach([&](std::byte& byte, uint32_t place) { byte = Expected(place, salt); });
  }
  int Wrong(uint32_t salt) {
    int wrong = 0;
    ForEach([&](std::byte& byte, uint32_t place) { wrong += byte != Expected(place, salt); });
    return wrong;
  }

 private:
  static std::byte Expected(uint32_t place, uint32_t salt) {
    return static_cast<std::byte>((place * 2654435761U + salt * 40503U) >> 13);
  }
  template <typename Visit>
  void ForEach(Visit visit) {
    for (int32_t rank = 0; rank < shape_.tensor_parallel; ++rank) {
      size_t next = 0;
      for (int32_t plane = 0; plane < 2 * shape_.layers; ++plane) {
        for (int32_t i = 0; i < shape_.heads_per_rank(); ++i) {
          const size_t head = plane * shape_.kv_heads + shape_.first_head(rank) + i;
          for (size_t byte = 0; byte < run_; ++byte) {
            visit(memory_[rank][next++], static_cast<uint32_t>(head * run_ + byte));
          }
        }
      }
    }
  }

  KvShape shape_;
  size_t run_ = 0;  // bytes of a head in one layer and plane
  std::vector<std::vector<std::byte>> memory_;
};

// Workers of these ranks can hand blocks to each other.
inline KvShape RankShape(int32_t kv_heads, int32_t ranks) {
  return {.dtype = "float32",
          .block_size = 4,
          .layers = 3,
          .kv_heads = kv_heads,
          .head_dim = 8,
          .tensor_parallel = ranks};
}

}  // namespace baton
