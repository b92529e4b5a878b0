#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cpu/isa.h"
#include "kernels/paged_kv.h"

namespace baton::kernels::cpu {

// Attention over the paged store, in fp32.
//
// For one query and head the operations and their order depend on the query's position alone: KV
// tiles of one block, a softmax over splits of 256 tokens counted from position 0, partial results
// merged in order. A dot product is the sum of its even and its odd elements, each added in
// ascending order; a value is added token by token. How many queries and heads share a tile, which
// is what makes prefill fast, changes nothing of this.
struct AttentionArgs {
  Matrix qkv;
  Matrix out;
  PagedKv kv;
  int layer = 0;
  AttentionShape shape;
};

// Consecutive queries of one sequence and the query heads of some consecutive KV heads, whose tiles
// lie one after the other in a block.
struct AttentionTask {
  const int32_t* blocks = nullptr;  // block table of the sequence
  int64_t first_row = 0;            // of qkv and out
  int32_t queries = 0;
  int32_t first_position = 0;
  int32_t kv_head = 0;  // the first
  int32_t kv_heads = 1;
};

// Tokens of a softmax split, a whole number of blocks.
int AttentionSplitBlocks(int block_size);
// Rows (queries x query heads) that a task holds at most: what fits the caches, but at least one
// group of heads.
int AttentionRowsPerTask(const AttentionShape& shape);
// Floats of scratch for a task, 64-byte aligned.
size_t AttentionScratch(const AttentionShape& shape, int block_size);

using PagedAttentionFn = void (*)(const AttentionArgs& args, const AttentionTask& task,
                                  float* scratch);
PagedAttentionFn ChoosePagedAttention(Isa isa);

}  // namespace baton::kernels::cpu
