#pragma once

#include <cstdint>

#include "common/kv/block_table.h"

namespace baton {

// What it costs to give a sequence's blocks up and to have them back, in seconds.
struct SwapCosts {
  double out_s = 0, in_s = 0;  // to copy one block to the host, and back
  double token_s = 0;          // to compute one token again; 0: nobody knows yet
  // What the copies of one step may take, each way: everybody in it waits for them.
  double step_s = 0.25;
};

// Where the KV of a preempted sequence lies while it waits: blocks of the host's arena hold what
// was in its blocks from `first` on, the last one perhaps filled in part. Those before them are
// looked for in the prefix cache. Of a search that has begun the blocks of its beams come behind
// those of its prompt.
struct SwappedKv {
  BlockTable blocks;
  int32_t first = 0;
  int32_t computed = 0;  // tokens
};

}  // namespace baton
