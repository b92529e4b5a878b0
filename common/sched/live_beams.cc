#include "common/sched/live_beams.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/base/check.h"

namespace baton {

LiveBeams::LiveBeams(const BeamParams& params, int32_t max_tokens, int32_t prompt_tokens,
                     int32_t block_size, BeamGroup::Ends ends)
    : params_(params),
      max_tokens_(max_tokens),
      prompt_tokens_(prompt_tokens),
      block_size_(block_size),
      ends_(std::move(ends)) {}

void LiveBeams::Begin(std::span<const TokenLogprob> candidates, BlockTable* prompt,
                      BlockPool* pool) {
  BATON_CHECK(!begun());
  group_.emplace(params_, max_tokens_, ends_);
  tails_.resize(1);
  const int32_t full = prompt_tokens_ / block_size_;
  for (int32_t i = full; i < prompt->size(); ++i) tails_[0].Append(pool->Reference((*prompt)[i]));
  prompt->Truncate(full);
  heard_.resize(1);
  Hear(0, candidates, pool);
}

void LiveBeams::Restart() {
  group_.reset();
  tails_.clear();
  places_.clear();
  copies_.clear();
  tables_.clear();
  heard_.clear();
  num_heard_ = 0;
}

std::optional<size_t> LiveBeams::Lacking(const BlockPool& pool) const {
  const int32_t next = NextBlock();
  const bool filled_in_part = position() % block_size_ != 0;
  for (size_t i = 0; i < tails_.size(); ++i) {
    if (tails_[i].size() <= next) return i;
    if (filled_in_part && pool.references(tails_[i][next]) > 1) return i;
  }
  return std::nullopt;
}

void LiveBeams::TakeBlock(BlockRef block, const BlockPool& pool) {
  const std::optional<size_t> lacking = Lacking(pool);
  BATON_CHECK(lacking) << "a block that no beam lacks";
  BlockTable& tail = tails_[*lacking];
  const int32_t next = NextBlock();
  if (tail.size() > next) {
    copies_.push_back({.from = tail[next].value(), .to = block.id().value()});
    tail.Truncate(next);
  }
  tail.Append(std::move(block));
}

std::vector<kernels::BlockCopy> LiveBeams::TakeCopies() { return std::exchange(copies_, {}); }

std::span<const TokenId> LiveBeams::TokenOf(int32_t beam) const {
  return {&group_->members()[static_cast<size_t>(beam)].token, 1};
}

std::span<const BlockId> LiveBeams::BlocksOf(int32_t beam, const BlockTable& prompt) {
  tables_.resize(tails_.size());
  std::vector<BlockId>& table = tables_[static_cast<size_t>(beam)];
  const std::span<const BlockId> shared = prompt.ids();
  const std::span<const BlockId> own = tails_[static_cast<size_t>(beam)].ids();
  table.assign(shared.begin(), shared.end());
  table.insert(table.end(), own.begin(), own.end());
  return table;
}

void LiveBeams::Hear(int32_t beam, std::span<const TokenLogprob> candidates, BlockPool* pool) {
  heard_[static_cast<size_t>(beam)].assign(candidates.begin(), candidates.end());
  if (++num_heard_ < rows()) return;
  const std::vector<std::span<const TokenLogprob>> all(heard_.begin(), heard_.end());
  group_->Advance(all);
  FollowParents(pool);
  heard_.assign(group_->members().size(), {});
  num_heard_ = 0;
}

// Each new beam has the blocks of its parent. The last one of a parent takes them over.
void LiveBeams::FollowParents(BlockPool* pool) {
  const auto members = group_->members();
  std::vector<size_t> last(tails_.size());
  for (size_t i = 0; i < members.size(); ++i) last[static_cast<size_t>(members[i].parent)] = i;
  std::vector<BlockTable> next(members.size());
  for (size_t i = 0; i < members.size(); ++i) {
    const auto parent = static_cast<size_t>(members[i].parent);
    if (last[parent] == i) {
      next[i] = std::move(tails_[parent]);
    } else {
      for (const BlockId id : tails_[parent].ids()) next[i].Append(pool->Reference(id));
    }
  }
  tails_ = std::move(next);
}

std::vector<BlockId> LiveBeams::SettledBlocks(BlockPool* pool) {
  for (auto copy = copies_.rbegin(); copy != copies_.rend(); ++copy) {
    const auto tail = std::ranges::find_if(tails_, [&](const BlockTable& table) {
      return table.size() > 0 && table[table.size() - 1].value() == copy->to;
    });
    BATON_CHECK(tail != tails_.end()) << "nobody has block " << copy->to;
    tail->Truncate(tail->size() - 1);
    tail->Append(pool->Reference(BlockId(copy->from)));
  }
  copies_.clear();
  const int32_t filled = BlocksFor(position(), block_size_) - prompt_tokens_ / block_size_;
  std::vector<BlockId> blocks;
  places_.assign(tails_.size(), {});
  for (size_t i = 0; i < tails_.size(); ++i) {
    tails_[i].Truncate(filled);
    for (const BlockId id : tails_[i].ids()) {
      const auto known = std::ranges::find(blocks, id);
      places_[i].push_back(static_cast<size_t>(known - blocks.begin()));
      if (known == blocks.end()) blocks.push_back(id);
    }
  }
  return blocks;
}

void LiveBeams::LeaveBlocks() {
  for (BlockTable& tail : tails_) tail.Clear();
  copies_.clear();
}

int32_t LiveBeams::BlocksToGoOn() const {
  if (position() % block_size_ == 0) return rows();
  std::set<size_t> last;  // filled in part, and perhaps shared
  for (const std::vector<size_t>& of_beam : places_) last.insert(of_beam.back());
  return rows() - static_cast<int32_t>(last.size());
}

void LiveBeams::TakeBlocks(std::vector<BlockRef> blocks, BlockPool* pool) {
  std::vector<BlockId> ids;
  for (const BlockRef& block : blocks) ids.push_back(block.id());
  for (size_t i = 0; i < tails_.size(); ++i) {
    for (const size_t place : places_[i]) {
      // The first to have it takes it over.
      tails_[i].Append(blocks[place] ? std::move(blocks[place]) : pool->Reference(ids[place]));
    }
  }
}

int32_t LiveBeams::OwnBlocks(const BlockPool& pool) const {
  std::map<BlockId, int32_t> references;  // of ours
  for (const BlockTable& tail : tails_) {
    for (const BlockId id : tail.ids()) ++references[id];
  }
  return static_cast<int32_t>(std::ranges::count_if(
      references, [&](const auto& of) { return pool.references(of.first) == of.second; }));
}

void LiveBeams::Tell(FinishedEvent* finished) const {
  finished->beams = group_->Results();
  finished->beam_steps = group_->steps();
  finished->generated_tokens = static_cast<int32_t>(finished->beams.front().tokens.size());
}

}  // namespace baton
