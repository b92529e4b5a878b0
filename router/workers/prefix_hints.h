#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <random>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/prefix_report.h"
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

// What this router knows of its workers' prefix caches: what they report, and what it sent them. Of
// a worker that reports, what was sent counts only until reports have had the time to tell of it;
// of any other, it is all there is, as many blocks as its pool has. It is only a hint. The worker's
// own cache decides, and a wrong belief costs time, never a token. Thread-safe.
class PrefixHints final {
 public:
  // How many sent blocks are remembered of one worker, whatever the size of its pool.
  static constexpr int64_t kMaxBlocks = 1 << 16;
  // How many blocks of all workers together are known; what comes beyond is not noted.
  static constexpr size_t kMaxKnown = size_t{1} << 22;
  // How long a worker that reports may take to tell of what it was sent.
  static constexpr base::Duration kUntilReported = std::chrono::seconds(2);

  // `most_known` instead of kMaxKnown is for tests.
  explicit PrefixHints(size_t most_known = kMaxKnown) : most_known_(most_known) {}

  // Notes that `chain` is in the cache of `worker`, whose pool has `pool_blocks`. While the worker
  // is distrusted nothing is noted.
  void Note(const WorkerKey& worker, const PrefixChain& chain, int64_t pool_blocks,
            base::Instant now);
  // A worker that reports is about to compute `chain`, or to be given it. Of any other nothing is
  // noted.
  void Expect(const WorkerKey& worker, const PrefixChain& chain, base::Instant now);
  // What the worker says of its cache. False when a report before it is missing: then nothing of it
  // is believed any more, until a whole one comes.
  bool Report(const WorkerKey& worker, const PrefixReport& report, base::Instant now);

  // Leading tokens of `chain` that `worker` would not compute again: whole blocks, never the last
  // token, whose logits are needed. The cost is logarithmic in the length of the chain.
  int64_t HeldTokens(const WorkerKey& worker, const PrefixChain& chain) const;
  // Likewise with what is expected of it, once it has computed what it was sent. Who is sent the
  // same now may still find it missing.
  int64_t ExpectedTokens(const WorkerKey& worker, const PrefixChain& chain) const;
  // Whether some worker may hold, or is expected to, that many leading tokens of `chain`. It costs
  // hardly more than one look-up.
  bool AnyHolds(const PrefixChain& chain, int64_t tokens) const;
  // Up to `most` workers that hold some of `chain`: first those that hold the most of it, drawn at
  // random where they are more, then those that hold half as much, and so on; with `may`, which
  // must not call back, only such as it is true of. The cost does not grow with the number of
  // workers.
  std::vector<WorkerKey> Holders(const PrefixChain& chain, size_t most, std::mt19937_64* random,
                                 const std::function<bool(const WorkerKey&)>& may = nullptr) const;

  // It held less than believed (its cache is off, or small for its load): forgets what it was sent
  // and notes nothing of that kind until `until`. What it reports stands, and what is expected of
  // it counts on.
  void Distrust(const WorkerKey& worker, base::Instant until);
  // Forgets a process that is gone.
  void Drop(const WorkerKey& worker);
  size_t workers() const;
  // Blocks that are known, over all workers.
  size_t known() const;

 private:
  // How sure it is that a worker has a block.
  enum class Belief { kExpected, kHeld };
  struct Sent {
    uint64_t block = 0;
    base::Instant at{};
    Belief belief = Belief::kHeld;
  };
  struct Worker {
    WorkerKey key;
    std::list<Sent> sent;  // last used first
    absl::flat_hash_map<uint64_t, std::list<Sent>::iterator> sent_at;
    base::Instant distrusted_until{};
    uint64_t version = 0;  // of its last report; 0: it does not report
    int32_t stride = 1;    // it tells of every so many blocks of a chain
    absl::flat_hash_set<uint64_t> told;

    // For which there is at least `belief`.
    bool Holds(uint64_t block, Belief belief = Belief::kExpected) const;
    // Leading blocks of the chain, likewise.
    size_t Held(const PrefixChain& chain, Belief belief) const;
  };
  struct HashOfKey {
    size_t operator()(const WorkerKey& key) const { return static_cast<size_t>(key.incarnation); }
  };
  using Workers = std::unordered_map<WorkerKey, Worker, HashOfKey>;
  using HoldersOfBlock = absl::InlinedVector<const Worker*, 2>;

  Worker& Of(const WorkerKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Sends(Worker* worker, const PrefixChain& chain, Belief belief, size_t limit,
             base::Instant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t TokensOf(const WorkerKey& worker, const PrefixChain& chain, Belief belief) const;
  void Touch(Worker* worker, uint64_t block, Belief belief, base::Instant now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets what was sent beyond `count` blocks, and before `since`.
  void ShrinkTo(Worker* worker, size_t count, base::Instant since)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetTold(Worker* worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Keep the index in step: before the worker holds a block, and after it ceased to.
  void Enter(const Worker& worker, uint64_t block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(const Worker& worker, uint64_t block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t most_known_;
  mutable base::Mutex mutex_;
  Workers workers_ ABSL_GUARDED_BY(mutex_);
  // Who holds a block.
  absl::flat_hash_map<uint64_t, HoldersOfBlock> holders_ ABSL_GUARDED_BY(mutex_);
  size_t known_ ABSL_GUARDED_BY(mutex_) = 0;  // of the workers, in sum
  // How many workers tell of every so many blocks.
  std::map<int32_t, int32_t> strides_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
