#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/backend.h"

namespace baton::kernels {

// Copies two blocks of a small cache on `backend`, and then takes them through an arena on the host
// to other places. Expects those bytes moved and no others.
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
  const auto expect_copied = [&](int32_t from, int32_t to) {
    std::memcpy(&expected[size * static_cast<size_t>(to)],
                &expected[size * static_cast<size_t>(from)], size);
  };
  const absl::Status copied = backend.CopyBlocks(kv, kv, copies);
  ASSERT_TRUE(copied.ok()) << copied;
  for (const auto& [from, to] : copies) expect_copied(from, to);
  const auto host = backend.AllocateOnHost(size * 2);
  ASSERT_TRUE(host.ok()) << host.status();
  PagedKv second = kv;
  second.arena = static_cast<std::byte*>((*host)->data());
  second.num_blocks = 2;
  // Blocks 2 and 3 change places: both are out before one comes in.
  const std::vector<BlockCopy> out = {{.from = 2, .to = 1}, {.from = 3, .to = 0}};
  const std::vector<BlockCopy> in = {{.from = 1, .to = 3}, {.from = 0, .to = 2}};
  ASSERT_TRUE(backend.CopyBlocks(kv, second, out).ok());
  ASSERT_TRUE(backend.CopyBlocks(second, kv, in).ok());
  const std::vector<unsigned char> before = expected;
  std::memcpy(&expected[size * 3], &before[size * 2], size);
  std::memcpy(&expected[size * 2], &before[size * 3], size);
  std::vector<unsigned char> actual(expected.size());
  ASSERT_TRUE(backend.Download(kv.arena, actual.size(), actual.data()).ok());
  EXPECT_EQ(actual, expected);
}

}  // namespace baton::kernels
