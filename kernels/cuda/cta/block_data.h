#pragma once

#include <cstdint>

// What block copies need on the device: plain data, C++17, no CUDA types.
namespace baton::kernels::cuda {

// Bytes of one block that move: out of the arena (gather), into it (scatter), or from block to
// block. Source and destination do not overlap; any alignment works, 16 bytes is fast.
struct BlockPart {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t bytes = 0;
  int64_t offset = 0;       // of `from` in its block; looked at only with used_slots >= 0
  int32_t used_slots = -1;  // slots from this one on are written as zeros; -1: all are in use
};

// How slots lie in a block: [layer][k|v][kv_head][slot][head_dim].
struct SlotShape {
  int32_t slot_bytes = 0;  // head_dim elements
  int32_t block_size = 0;  // slots
};

}  // namespace baton::kernels::cuda
