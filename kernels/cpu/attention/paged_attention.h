#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cpu/isa.h"
#include "kernels/paged_kv.h"

namespace baton::kernels::cpu {

// What all tasks of a call of Backend::PagedAttention share. Attention computes in fp32, but for
// one case: with kAvx512Bf16, where queries are in bfloat16 and keys and values in no more bits, it
// multiplies these in pairs of bfloat16 and adds in fp32.
//
// For one query and head the operations and their order depend on the query's position alone: the
// softmax is taken over splits of 256 tokens counted from position 0, in vectors that begin at
// multiples of 16 tokens (in pairs: of 32), and the partial results are merged in order. The order
// of products and sums stands beside FloatTiles and PairTiles.
// Neither how many queries and heads share a tile, which is what makes prefill fast, changes
// anything of this, nor how many tokens a block has.
struct AttentionArgs {
  Matrix qkv;
  Matrix out;
  PagedKv kv;
  int layer = 0;
  AttentionShape shape;
};

// Splits of the keys: those that the queries of a task see, or some of them.
struct SplitRange {
  int32_t begin = 0;
  int32_t end = 0;
  int32_t count() const { return end - begin; }
};

// Where the results of splits meet that several tasks compute for the same queries and heads. The
// last of these tasks merges all of them, in order.
struct SharedSplits {
  SplitRange splits;  // of all tasks
  int32_t tasks = 0;
  float* results = nullptr;      // [splits, AttentionSplitFloats]
  std::atomic<int32_t> done{0};  // tasks, of the layer at work
};

// The part of a step's attention that one thread computes: consecutive queries of one sequence,
// with all query heads of some consecutive KV heads, whose tiles lie one after the other in a
// block. It takes all splits that the queries see, unless it shares them with other tasks.
struct AttentionTask {
  const int32_t* blocks = nullptr;  // block table of the sequence
  int64_t first_row = 0;            // of qkv and out
  int32_t queries = 0;
  int32_t first_position = 0;
  int32_t kv_head = 0;  // the first
  int32_t kv_heads = 1;
  SplitRange splits;               // of a task that shares them
  SharedSplits* shared = nullptr;  // null: it does not
};

// All splits that the queries of `task` see.
SplitRange SplitsSeen(const AttentionTask& task, const AttentionShape& shape);
// How many floats the results of one split are, for a task of `rows` rows.
int64_t AttentionSplitFloats(int64_t rows, const AttentionShape& shape);

// How many rows (queries x query heads) a task holds at most: as many as fit the caches, but at
// least one group of query heads.
int AttentionRowsPerTask(const AttentionShape& shape);
// How many floats of scratch, 64-byte aligned, a task needs.
size_t AttentionScratch(const AttentionShape& shape, int block_size);

using PagedAttentionFn = void (*)(const AttentionArgs& args, const AttentionTask& task,
                                  float* scratch);
// For `isa` as ChooseIsa gives it.
PagedAttentionFn ChoosePagedAttention(Isa isa);
// What BackendInfo::attention_version says of it.
int AttentionVersion(Isa isa);

}  // namespace baton::kernels::cpu
