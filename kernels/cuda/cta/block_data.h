#pragma once

#include <cstdint>

// What copies of KV blocks need on the device: plain data in C++17 without CUDA's types, so that
// host and device share it.
namespace baton::kernels::cuda {

// Bytes of one KV block that move: out of the arena (gather), into it (scatter), or from block to
// block. Source and destination do not overlap. Any alignment works; one of 16 bytes is fast.
struct BlockPart {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t bytes = 0;
};

}  // namespace baton::kernels::cuda
