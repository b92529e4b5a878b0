#include "common/kv/block_pool.h"

#include <utility>

#include "common/base/check.h"

namespace baton {

BlockRef::BlockRef(BlockRef&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      id_(std::exchange(other.id_, BlockId())),
      held_(std::exchange(other.held_, false)) {}

BlockRef& BlockRef::operator=(BlockRef&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  pool_ = std::exchange(other.pool_, nullptr);
  id_ = std::exchange(other.id_, BlockId());
  held_ = std::exchange(other.held_, false);
  return *this;
}

void BlockRef::Reset() {
  if (pool_ == nullptr) return;
  std::exchange(pool_, nullptr)
      ->Release(std::exchange(id_, BlockId()), std::exchange(held_, false));
}

void BlockRef::Quarantine() {
  if (pool_ == nullptr || held_) return;
  held_ = true;
  pool_->Hold(id_);
}

BlockPool::BlockPool(int32_t num_blocks) : blocks_(static_cast<size_t>(num_blocks)) {
  free_.reserve(blocks_.size());
  for (int32_t i = num_blocks - 1; i >= 0; --i) free_.push_back(i);
}

BlockPool::~BlockPool() {
  BATON_CHECK(num_used_ == 0 && num_quarantined_ == 0)
      << num_used_ << " used and " << num_quarantined_ << " quarantined blocks outlive their pool";
}

BlockRef BlockPool::Allocate() {
  int32_t index = kNil;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else if (lru_oldest_ != kNil) {
    index = lru_oldest_;
    LruRemove(index);
    blocks_[static_cast<size_t>(index)].cached = false;
    ++evictions_;
    if (evicted_) evicted_(BlockId(index));
  } else {
    return BlockRef();
  }
  blocks_[static_cast<size_t>(index)].references = 1;
  ++num_used_;
  return BlockRef(this, BlockId(index));
}

BlockRef BlockPool::Reference(BlockId id) {
  Block& block = blocks_[Index(id)];
  BATON_CHECK(block.references > 0 || block.cached) << "block " << id.value() << " is free";
  if (block.references == 0) {
    if (block.holds > 0) --num_quarantined_;
    if (block.in_lru) LruRemove(id.value());
    ++num_used_;
  }
  ++block.references;
  return BlockRef(this, id);
}

void BlockPool::SetCached(BlockId id, bool cached) {
  Block& block = blocks_[Index(id)];
  if (block.cached == cached) return;
  block.cached = cached;
  if (block.references > 0 || block.holds > 0) return;
  BATON_CHECK(!cached) << "block " << id.value() << " is free and cannot become cached";
  LruRemove(id.value());
  free_.push_back(id.value());
}

void BlockPool::Release(BlockId id, bool held) {
  Block& block = blocks_[Index(id)];
  if (held) {
    BATON_CHECK(block.holds > 0) << "block " << id.value();
    if (--block.holds > 0 || block.references > 0) return;
    --num_quarantined_;
  } else {
    BATON_CHECK(block.references > 0) << "block " << id.value();
    if (--block.references > 0) return;
    --num_used_;
    if (block.holds > 0) {
      ++num_quarantined_;
      return;
    }
  }
  Park(id.value());
}

void BlockPool::Hold(BlockId id) {
  ++blocks_[Index(id)].holds;
  Release(id, /*held=*/false);
}

void BlockPool::Park(int32_t index) {
  if (blocks_[static_cast<size_t>(index)].cached) {
    LruPush(index);
  } else {
    free_.push_back(index);
  }
}

void BlockPool::LruPush(int32_t index) {
  Block& block = blocks_[static_cast<size_t>(index)];
  block.in_lru = true;
  block.previous = lru_newest_;
  block.next = kNil;
  if (lru_newest_ != kNil) blocks_[static_cast<size_t>(lru_newest_)].next = index;
  lru_newest_ = index;
  if (lru_oldest_ == kNil) lru_oldest_ = index;
  ++num_cached_;
}

void BlockPool::LruRemove(int32_t index) {
  Block& block = blocks_[static_cast<size_t>(index)];
  BATON_CHECK(block.in_lru) << "block " << index;
  block.in_lru = false;
  if (block.previous != kNil) blocks_[static_cast<size_t>(block.previous)].next = block.next;
  if (block.next != kNil) blocks_[static_cast<size_t>(block.next)].previous = block.previous;
  if (lru_oldest_ == index) lru_oldest_ = block.next;
  if (lru_newest_ == index) lru_newest_ = block.previous;
  block.previous = block.next = kNil;
  --num_cached_;
}

bool BlockPool::IsConsistent() const {
  int32_t used = 0, quarantined = 0, cached = 0, unowned = 0;
  for (const Block& block : blocks_) {
    if (block.references > 0) {
      ++used;
    } else if (block.holds > 0) {
      ++quarantined;
    } else if (block.cached) {
      ++cached;
    } else {
      ++unowned;
    }
    const bool evictable = block.references == 0 && block.holds == 0 && block.cached;
    if (evictable != block.in_lru) return false;
  }
  return used == num_used_ && quarantined == num_quarantined_ && cached == num_cached_ &&
         unowned == num_free();
}

}  // namespace baton
