#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "router/workers/worker_view.h"

namespace baton {

// A token sequence as a chain of hashes, one per full block: equal chains up to a block mean equal
// tokens up to its end, but for collisions. Chains of other salts or block sizes never meet.
struct PrefixChain {
  int32_t block_tokens = 16;
  int64_t tokens = 0;            // of the whole sequence
  std::vector<uint64_t> blocks;  // [tokens / block_tokens]
};
PrefixChain ChainOf(std::string_view salt, std::span<const TokenId> prompt,
                    std::span<const TokenId> generated, int32_t block_tokens);

// What this router believes the prefix caches of its workers to hold, from what it sent them: for
// each worker the blocks seen last, as many as its pool has. It is only a hint. The worker's own
// cache decides, and a wrong belief costs time, never a token. Thread-safe.
class PrefixHints final {
 public:
  // How many blocks are remembered of one worker, whatever the size of its pool.
  static constexpr int64_t kMaxBlocks = 1 << 16;

  // Notes that `chain` is in the cache of `worker`, whose pool has `pool_blocks`. While the worker
  // is distrusted nothing is noted.
  void Note(const WorkerKey& worker, const PrefixChain& chain, int64_t pool_blocks,
            base::Instant now);
  // Leading tokens of `chain` that `worker` would not compute again: whole blocks, never the last
  // token, whose logits are needed.
  int64_t HeldTokens(const WorkerKey& worker, const PrefixChain& chain) const;
  // It held less than believed (its cache is off, or small for its load): forgets what is known of
  // it and learns nothing until `until`.
  void Distrust(const WorkerKey& worker, base::Instant until);
  // Forgets a process that is gone.
  void Drop(const WorkerKey& worker);
  size_t workers() const;

 private:
  struct Blocks {
    std::list<uint64_t> recent;  // last used first
    std::unordered_map<uint64_t, std::list<uint64_t>::iterator> at;
    base::Instant distrusted_until{};

    void Touch(uint64_t block);
    void ShrinkTo(size_t count);
  };

  mutable base::Mutex mutex_;
  std::map<WorkerKey, Blocks> workers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
