#pragma once

#include <cstdint>
#include <string>

namespace baton {

// The shape of a worker's KV blocks as peers see it: plain data, comparable, printable. Only equal
// shapes can be paired.
struct KvShape {
  std::string dtype;  // "float32" or "bfloat16"
  int32_t block_size = 0;
  int32_t layers = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t tensor_parallel = 1;
  int32_t layout_version = 1;  // of [layer][k|v][kv_head][slot][head_dim]

  friend bool operator==(const KvShape&, const KvShape&) = default;

  // "float32 block 16 layers 2 kv_heads 2 head_dim 64 tp 1 v1"
  std::string Describe() const {
    return dtype + " block " + std::to_string(block_size) + " layers " + std::to_string(layers) +
           " kv_heads " + std::to_string(kv_heads) + " head_dim " + std::to_string(head_dim) +
           " tp " + std::to_string(tensor_parallel) + " v" + std::to_string(layout_version);
  }
};

}  // namespace baton
