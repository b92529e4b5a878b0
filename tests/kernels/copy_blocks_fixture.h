#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/backend.h"

namespace baton::kernels {

// Copies two blocks of a small cache on `backend`, and expects those bytes moved and no others.
inline void ExpectBlocksCopied(Backend& backend) {
  PagedKv kv;
  kv.layout = {.block_size = 4, .layers = 2, .kv_heads = 1, .head_dim = 8};
  kv.num_blocks = 5;
  const size_t size = kv.layout.block_bytes();
  const auto arena = backend.Allocate(size * 5);
  ASSERT_TRUE(arena.ok()) << arena.status();
  kv.arena = static_cast<std::byte*>((*arena)->data());
  std::vector<unsigned char> expected(size * 5);
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = static_cast<unsigned char>(i / size * 31 + i % 251);
  }
  ASSERT_TRUE(backend.Upload(expected.data(), expected.size(), kv.arena).ok());
  const std::vector<BlockCopy> copies = {{.from = 1, .to = 4}, {.from = 1, .to = 0}};
  const absl::Status copied = backend.CopyBlocks(kv, copies);
  ASSERT_TRUE(copied.ok()) << copied;
  for (const auto& [from, to] : copies) {
    std::memcpy(&expected[size * static_cast<size_t>(to)],
                &expected[size * static_cast<size_t>(from)], size);
  }
  std::vector<unsigned char> actual(expected.size());
  ASSERT_TRUE(backend.Download(kv.arena, actual.size(), actual.data()).ok());
  EXPECT_EQ(actual, expected);
}

}  // namespace baton::kernels
