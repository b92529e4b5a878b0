#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/kv_shape.h"
#include "common/base/running_line.h"
#include "common/roles/role_view.h"
#include "router/workers/tally.h"
#include "router/workers/warm_pairs.h"
#include "router/workers/worker_view.h"

namespace baton {

// What an attempt takes of a worker.
struct WorkerClaim {
  int64_t tokens = 0;         // of prompt and generated, to be held there from the start
  int64_t held_tokens = 0;    // of these, so many are in use there already, by another answer
  int64_t growth_tokens = 0;  // that may still be generated there
  bool computes = false;      // the worker computes the prompt
  bool decodes = false;       // the place lasts until the end of the attempt, not of its prompt

  int64_t new_tokens() const { return tokens - held_tokens; }
};

// What this router has at a worker, and could use in all, that included.
struct WorkerDemand {
  int32_t places_held = 0, places_wanted = 0;
  int64_t prompt_tokens_held = 0, prompt_tokens_wanted = 0;
  friend bool operator==(const WorkerDemand&, const WorkerDemand&) = default;
};

// What one router knows of its workers: who they are, what they said last, and, in one place, what
// this router has at each of them. It has no threads, clock or connections: news go in with the
// time, which never goes back, and placement reads the views. Calls that name a process have no
// effect once that process is gone, but for what attempts take and give back: that is counted by
// process, whether or not it is there, because it may be away for a moment only, its Watch broken
// or its name pointing elsewhere. News and questions cost O(log n) of n workers, but for `Healthy`.
// Not thread-safe.
class WorkerTable final {
 public:
  struct Rules {
    base::Duration status_fresh{};  // a status that is older says nothing
    base::Duration full_backoff{};  // how long a worker that answered FULL gets nothing new
  };
  explicit WorkerTable(const Rules& rules) : rules_(rules) {}
  WorkerTable(const WorkerTable&) = delete;
  WorkerTable& operator=(const WorkerTable&) = delete;

  // --- News of workers, each known by its kind and address. ---
  void Add(WorkerKind kind, const std::string& address, std::shared_ptr<WorkerLink> link);
  void Remove(WorkerKind kind, const std::string& address);
  // Whether the configured lists still have it; one that they dropped gets nothing new.
  void SetListed(WorkerKind kind, const std::string& address, bool listed);
  // A process introduced itself. It gets requests only if it was accepted.
  void Learn(WorkerKind kind, const std::string& address, WorkerFacts facts, bool accepted);
  void Update(WorkerKind kind, const std::string& address, WorkerLoad load, base::Instant now);
  // Its Watch ended: the process is gone.
  void Lose(WorkerKind kind, const std::string& address);

  // --- What attempts take and give back: no more than they took, else the process ends. ---
  void Take(WorkerKind kind, const WorkerKey& key, const WorkerClaim& claim);
  // The prompt was computed: a prefill worker's place is free again.
  void PromptDone(WorkerKind kind, const WorkerKey& key, const WorkerClaim& claim);
  // The attempt is over. After PromptDone for what computed.
  void Return(WorkerKind kind, const WorkerKey& key, const WorkerClaim& claim);
  // It answered FULL. Returns when it may be asked again.
  base::Instant MarkFull(const WorkerKey& key, base::Instant now);
  // A stream to it broke: it gets nothing new until it speaks again.
  void MarkSuspect(const WorkerKey& key);

  // So many tokens of a KV cache came to a decode worker so long after the prompt was computed.
  void NoteHandoff(int64_t tokens, base::Duration took);

  // It is `now`: who was silent for too long gets nothing new until it speaks again.
  void Advance(base::Instant now);

  // --- Questions. ---
  // Workers that get requests and have a place, prefill workers also for a prompt. Some may have
  // answered FULL a moment ago, or be silent for too long since the last Advance. In no order,
  // until the next change.
  std::span<const WorkerView* const> WithPlace(WorkerKind kind) const { return Of(kind).open; }
  // All that get requests, as of the last Advance.
  std::span<const WorkerView* const> Serving(WorkerKind kind) const { return Of(kind).serving; }
  // The most tokens that a sequence may have at the largest of those, of one model or, for "", of
  // any; 0: there is none. And how many models they serve.
  int64_t ServingContext(WorkerKind kind, const std::string& fingerprint) const;
  size_t ServingModels(WorkerKind kind) const { return Of(kind).models.size(); }
  const WarmPairs& warm_pairs() const { return warm_pairs_; }
  // As late hand-offs say, whatever workers these were between.
  HandoffTimes handoff_times() const;
  // Those of Serving and suspects; each process once, by address. It looks at all workers.
  std::vector<const WorkerView*> Healthy(WorkerKind kind, base::Instant now) const;
  bool AnyHealthy(WorkerKind kind, base::Instant now);
  bool IsHealthy(WorkerKind kind, const std::string& address, base::Instant now) const;
  // Whether it would be healthy, but takes requests of its other role only.
  bool TakesOtherRole(WorkerKind kind, const std::string& address, base::Instant now) const;
  // Whether an elastic worker there may change its role as far as this router goes: it lists it in
  // both, and refuses it in none.
  bool MayChangeRole(const std::string& address) const;
  // What an elastic worker of that model should know of all workers of it, but for what waits here.
  // It looks at all workers.
  ClusterView ClusterOf(const std::string& fingerprint, base::Instant now) const;
  // Whether that very process still answers its Watch, and whether it said something lately.
  bool IsAlive(const WorkerKey& key) const;
  bool IsFresh(const WorkerKey& key, base::Instant now) const;
  // What it said last; nothing of one that never spoke.
  WorkerLoad LoadOf(WorkerKind kind, const std::string& address) const;
  const WorkerView* Find(WorkerKind kind, const WorkerKey& key) const;
  // The shapes of KV blocks that the listed workers of a model have, each once. It looks at all
  // workers.
  std::vector<KvShape> ShapesOf(WorkerKind kind, const std::string& fingerprint) const;
  // The most tokens that a sequence may have at the largest of the decode workers: of the healthy
  // ones, and of all that are listed and were seen. 0: there is none.
  int64_t HealthyContext(base::Instant now);
  int64_t KnownContext() const { return Of(WorkerKind::kDecode).known_context.largest(); }
  // Likewise, the tokens of the largest pool of KV blocks.
  int64_t HealthyPool(base::Instant now);
  int64_t KnownPool() const { return Of(WorkerKind::kDecode).known_pool.largest(); }
  // How many tokens a block of the healthy decode workers holds, where they differ the smallest; 0:
  // there is none.
  int64_t BlockTokens(base::Instant now);
  // What to tell a worker while `requests` with `tokens` in all wait that could use it.
  WorkerDemand DemandOf(WorkerKind kind, const std::string& address, int64_t requests,
                        int64_t tokens) const;

 private:
  struct Entry;
  // What this router has at one process.
  struct Held {
    int32_t attempts = 0;  // that have not given all back
    int32_t places = 0;
    int64_t prompt_tokens = 0;
    int64_t growth_tokens = 0;
    Entry* entry = nullptr;  // of its address, while it is known there as the last one
  };
  struct Entry {
    WorkerView view;
    bool known = false;  // the facts are of a process that speaks to us
    bool accepted = false;
    bool listed = true;
    bool suspect = false;
    bool fresh = false;  // not silent for too long, as of the last Advance
    WorkerLoad load;
    int64_t seen_context = 0, seen_pool = 0;  // outlive the process
    Held* held = nullptr;                     // at the process of the facts; null before the first
    int64_t line = 0;  // prompts, since the last status without tokens of any
    // What the last status does not show yet.
    int64_t tokens_queued = 0;
    int64_t tokens_placed = 0;
    int64_t sequences_placed = 0;
    // Positions in the lists of `Group`, or -1, and what it counts for in its tallies.
    int32_t open_at = -1, serving_at = -1;
    Tally::Counted healthy_context, healthy_pool, healthy_block, known_context, known_pool,
        serving_context;
  };
  struct HashOfKey {
    size_t operator()(const WorkerKey& key) const { return static_cast<size_t>(key.incarnation); }
  };
  // All workers of one kind. Only the first four have those that get nothing.
  struct Group {
    std::map<std::string, std::unique_ptr<Entry>> by_address;
    // At processes that have an entry, and at others as long as something is held there.
    std::unordered_map<WorkerKey, Held, HashOfKey> held;
    Tally known_context, known_pool;
    std::vector<const WorkerView*> open, serving;
    std::map<const WorkerView*, Entry*> entry_of;
    std::set<std::pair<base::Instant, Entry*>> fresh;  // by when they will be silent for too long
    Tally healthy_context, healthy_pool, healthy_block;
    std::map<std::string, Tally> models;  // contexts of who serves, by fingerprint
  };

  const Group& Of(WorkerKind kind) const { return groups_[static_cast<size_t>(kind)]; }
  Group& Of(WorkerKind kind) { return groups_[static_cast<size_t>(kind)]; }
  // The elastic workers that change their roles as this router tells them.
  std::set<uint64_t> Changing() const;
  RoleView RoleOf(WorkerKind kind, const std::string& fingerprint, base::Instant now) const;
  Entry* At(WorkerKind kind, const std::string& address);
  const Entry* At(WorkerKind kind, const std::string& address) const;
  Entry* OfProcess(WorkerKind kind, const WorkerKey& key);
  const Entry* OfProcess(WorkerKind kind, const WorkerKey& key) const;
  // Connects the entry with what is held at the process of its facts, and takes it away from there.
  void ShowHeld(WorkerKind kind, Entry* entry);
  void HideHeld(WorkerKind kind, Entry* entry);
  // What is held where an attempt gives something back.
  Held& GivenBack(WorkerKind kind, const WorkerKey& key);
  // Brings the view and the lists in step with the entry.
  void Refresh(WorkerKind kind, Entry* entry);
  void CountContexts(Group* group, Entry* entry, bool healthy, bool serves);
  void SetFresh(Group* group, Entry* entry, base::Instant until);
  void SetMember(Group* group, std::vector<const WorkerView*> Group::*list,
                 int32_t Entry::*position, Entry* entry, bool member);

  const Rules rules_;
  Group groups_[2];
  WarmPairs warm_pairs_;
  RunningLine handoffs_{0.98};  // seconds by tokens
};

}  // namespace baton
