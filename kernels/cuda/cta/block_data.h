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
};

}  // namespace baton::kernels::cuda
