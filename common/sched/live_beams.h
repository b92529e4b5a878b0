#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/kv/block_pool.h"
#include "common/kv/block_table.h"
#include "common/sched/beam_group.h"
#include "common/sched/events.h"
#include "kernels/paged_kv.h"

namespace baton {

// The beam search of a sequence inside the scheduler: what it decides, and the blocks that its
// beams have. The full blocks of the prompt stay in the sequence's own table. Behind them each beam
// has a table, and beams that began alike share blocks by reference; a block that is filled in part
// is copied when more than one of them goes on in it. All beams are equally long.
class LiveBeams {
 public:
  LiveBeams(const BeamParams& params, int32_t max_tokens, int32_t prompt_tokens, int32_t block_size,
            BeamGroup::Ends ends);

  int32_t width() const { return params_.width; }
  // Whether the prompt was computed and beams go on behind it.
  bool begun() const { return group_.has_value(); }
  int32_t steps() const { return begun() ? group_->steps() : 0; }  // tokens of each beam
  bool done() const { return begun() && group_->done(); }

  // Goes on behind the prompt, whose blocks are in `prompt`; the one that is filled in part passes
  // to the beams.
  void Begin(std::span<const TokenLogprob> candidates, BlockTable* prompt, BlockPool* pool);
  // Forgets what came of the search, which begins anew with its prompt: it lost its blocks.
  void Restart();

  // --- Of a search that has begun. ---

  int32_t rows() const { return static_cast<int32_t>(group_->members().size()); }
  // The position of the token that each beam feeds next.
  int32_t position() const { return prompt_tokens_ + group_->steps() - 1; }
  // Whether every beam has a block of its own to go on in.
  bool HasBlocks(const BlockPool& pool) const { return !Lacking(pool); }
  // Gives a block to a beam that has none. What it shared so far is to be copied there.
  void TakeBlock(BlockRef block, const BlockPool& pool);
  // Copies that are due before the next rows compute.
  std::vector<kernels::BlockCopy> TakeCopies();
  // What a beam feeds, and the table of its blocks, those of the prompt included. Both stay as they
  // are until all beams were heard.
  std::span<const TokenId> TokenOf(int32_t beam) const;
  std::span<const BlockId> BlocksOf(int32_t beam, const BlockTable& prompt);

  // Takes what the model finds likely behind a beam. Once all beams were heard the search goes on.
  void Hear(int32_t beam, std::span<const TokenLogprob> candidates, BlockPool* pool);

  // The blocks that hold something of the beams, each once, in an order that only they decide.
  // Blocks that were given to go on in, and were not yet, are given back.
  std::vector<BlockId> SettledBlocks(BlockPool* pool);
  // Lets go of these blocks, and takes others in their place: as many, in the same order. Meanwhile
  // BlocksToGoOn says how many more it takes, then, until every beam has one to go on in.
  void LeaveBlocks();
  int32_t BlocksToGoOn() const;
  void TakeBlocks(std::vector<BlockRef> blocks, BlockPool* pool);

  // How many blocks nobody else refers to.
  int32_t OwnBlocks(const BlockPool& pool) const;
  // Says what was found. Call when it is done.
  void Tell(FinishedEvent* finished) const;

 private:
  std::optional<size_t> Lacking(const BlockPool& pool) const;
  // The place, in a beam's table, of the block that its next token goes into.
  int32_t NextBlock() const { return position() / block_size_ - prompt_tokens_ / block_size_; }
  void FollowParents(BlockPool* pool);

  const BeamParams params_;
  const int32_t max_tokens_;
  const int32_t prompt_tokens_;
  const int32_t block_size_;
  const BeamGroup::Ends ends_;
  std::optional<BeamGroup> group_;
  std::vector<BlockTable> tails_;  // [rows] behind the full blocks of the prompt
  // While it has no blocks: by row, the places of what was in its table among SettledBlocks.
  std::vector<std::vector<size_t>> places_;
  std::vector<kernels::BlockCopy> copies_;
  std::vector<std::vector<BlockId>> tables_;      // [rows] of the step that is out
  std::vector<std::vector<TokenLogprob>> heard_;  // [rows], empty where nothing was heard yet
  int32_t num_heard_ = 0;
};

}  // namespace baton
