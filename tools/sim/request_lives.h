#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/kv/prefix_cache.h"
#include "common/sched/scheduler.h"
#include "tools/bench/plan/prompt_maker.h"
#include "tools/sim/answers.h"
#include "tools/sim/cluster.h"
#include "tools/sim/fleet.h"
#include "tools/sim/timeline.h"

namespace baton::simulator {

// The lives of requests, from their arrival to their ends: their attempts, as RequestFlow and
// Attempt make them, and every message between router and workers that belongs to one.
class RequestLives final {
 public:
  struct Counts {
    int64_t refused = 0;
    std::string first_refusal;  // why
    uint64_t full = 0, handoffs = 0;
    double handoff_bytes = 0;
  };

  // Requests come when they say, or when others are over. `all_arrived` is told when the last one
  // comes, or no more may come. The fleet must be complete when the first comes.
  RequestLives(const ClusterSetup& setup, const std::vector<SimRequest>& asked,
               const bench::PromptMaker& prompts, Timeline* timeline, Fleet* fleet, Ahead* ahead,
               std::function<void()> all_arrived);
  RequestLives(const RequestLives&) = delete;
  RequestLives& operator=(const RequestLives&) = delete;

  void Begin();
  bool all_over() const { return over_ == coming_; }
  size_t num_left() const { return coming_ - over_; }
  // Whether a request is under way.
  bool any_here() const { return !lives_.empty(); }
  // When a first token or an end came last, or somebody where nobody was.
  base::Instant last_progress() const { return last_progress_; }

  // --- What the request's router says. ---
  void Open(uint32_t request, TakenPlace place);
  void Refuse(uint32_t request, const std::string& why);
  // --- What workers say, by their number, at the time when they do. ---
  void HearDecode(uint32_t worker, uint32_t request, SequenceId id, const SchedEvent& event);
  void HearPrefill(uint32_t worker, uint32_t request, SequenceId id, const SchedEvent& event);

  // Of all requests that came, as they were given.
  std::vector<RequestOutcome> TakeOutcomes();
  const Counts& counts() const { return counts_; }

 private:
  // One attempt to serve a request.
  struct Attempt {
    int32_t number = 0;
    TakenPlace place;
    uint32_t decode = 0, prefill = 0;     // numbers of the workers
    SequenceId decode_seq, prefill_seq;   // once they are there
    int32_t skip_blocks = 0;              // of the push
    int32_t first_step = 1;               // the output step that it draws first
    bool asked = false, granted = false;  // for blocks at the decode worker
    // Of a prompt that is computed ahead: since when, and what waits for the grant.
    bool ahead = false;
    base::Instant opened{};
    std::optional<base::Instant> first_token_at{};
    std::vector<BlocksProven> to_push;
  };
  // A request that is under way.
  struct Life {
    uint32_t router = 0;
    base::Instant arrived{};
    int32_t attempts = 0;
    int32_t generated = 0;  // accepted from attempts that broke
    int32_t max_tokens = 0;
    bool first_seen = false;
    std::optional<Attempt> attempt;
    std::shared_ptr<const PrefixChain> prefix;
  };

  void Arrive();  // the next one
  void EndArrivals();
  void Queue(uint32_t request, Life* life, bool is_new);
  void Over(uint32_t request);

  // What a router does for a request after Open, in the order of a request's way.
  void Reserve(uint32_t request, int32_t number);
  void Prefill(uint32_t request, int32_t number);
  void Reserved(uint32_t request, int32_t number, int32_t cached_blocks);
  void FirstToken(uint32_t request, int32_t number);
  void Started(uint32_t request, int32_t number);
  void NoRoom(uint32_t request, int32_t number, bool full);
  void NoPromptTaken(uint32_t request, int32_t number);
  void Done(uint32_t request, int32_t number, const FinishedEvent& finished, bool at_prefill);

  // What a prefill worker sends once blocks are computed, or, ahead of a place, does instead.
  void Push(const Attempt& attempt, uint32_t request, SequenceId id, const BlocksProven& proven);
  void PushAhead(Attempt* attempt, uint32_t request, const BlocksProven& proven);
  // The attempt has a place at its decode worker, or needs none any more.
  void EndAhead(Attempt* attempt);

  Life* Find(uint32_t request);
  // The request's attempt, if it is still that one.
  Attempt* Current(uint32_t request, int32_t number);
  VirtualRouter& RouterOf(const Life& life) { return *fleet_->routers[life.router]; }
  SequenceSpec SpecOf(uint32_t request, const Life& life, SequenceKind kind) const;
  template <typename Message>
  void Mail(Message message) {
    timeline_->After(setup_.message, std::move(message));
  }
  double Since(base::Instant when) const { return base::Seconds(when - begin_); }

  const ClusterSetup& setup_;
  const std::vector<SimRequest>& asked_;
  const bench::PromptMaker& prompts_;
  Timeline* const timeline_;
  Fleet* const fleet_;
  Ahead* const ahead_;
  const std::function<void()> all_arrived_;
  const base::Instant begin_;
  std::unordered_map<uint32_t, Life> lives_;
  uint32_t arrived_ = 0, over_ = 0;
  size_t coming_;  // of those asked, the first so many
  base::Instant last_progress_;
  std::vector<base::Instant> link_free_;  // of each prefill worker, for what it sends
  std::vector<RequestOutcome> outcomes_;
  Counts counts_;
};

}  // namespace baton::simulator
