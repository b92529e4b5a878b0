#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace baton {

// What is done with requests that ask to ignore EOS. kWarn counts and logs them.
enum class IgnoreEosRule { kAllow, kWarn, kRefuse };

// How long the router waits for what. Only `request` may be overridden by the client.
struct RouterDeadlines {
  base::Duration request = std::chrono::seconds(600);
  // For blocks in a decode worker while nothing ends there. The worker is told; the router waits
  // `answer_grace` longer and then looks whether the worker still speaks.
  base::Duration reserve = std::chrono::seconds(5);
  base::Duration answer_grace = std::chrono::seconds(1);
  // From the prefill worker's last word until `Started`.
  base::Duration commit_to_started = std::chrono::seconds(5);
  // For either answer, from a worker that goes on saying how it is.
  base::Duration slow_answer = std::chrono::seconds(30);
  // Without a healthy worker, until queued requests are refused.
  base::Duration no_worker = std::chrono::seconds(30);
  // Without the client taking anything that is ready for it.
  base::Duration slow_client = std::chrono::seconds(30);
  // A worker's status that is older than this says nothing.
  base::Duration status_fresh = std::chrono::seconds(2);
  base::Duration resolve_every = std::chrono::seconds(5);
  // For a worker to listen where it is looked for first, until the log says that nobody does and it
  // is tried less often: routers and workers start in any order.
  base::Duration worker_start = std::chrono::seconds(5);
  // How long a worker that broke, refused or failed a push is passed over if there is another.
  base::Duration avoid = std::chrono::seconds(10);
  // How long a worker that answered FULL gets nothing new.
  base::Duration full_backoff = std::chrono::milliseconds(200);
  // For a released or cancelled stream to end by itself.
  base::Duration release = std::chrono::seconds(5);
  // For a prefill worker's last figures, once the end of a request is known.
  base::Duration last_figures = std::chrono::milliseconds(250);
  // For proof that a process died, before a request that may have killed it is tried again or
  // ended.
  base::Duration settle = std::chrono::seconds(1);
};

// By what workers are chosen, among those that may be.
enum class Routing {
  kLoad,       // the share of its blocks that a decode worker will need at its peak
  kPrefix,     // the part of the prompt that it has in its prefix cache; among equals, by load
  kRemaining,  // what it has in its KV cache, by how long that is expected to stay
  kScore,      // one sum of all these, ScoreWeights
};
// Whether it asks what workers have in their prefix caches.
constexpr bool ByPrefix(Routing routing) {
  return routing == Routing::kPrefix || routing == Routing::kScore;
}

// What one tenant may have of a router, and its part where several want more than there is.
struct TenantRule {
  double weight = 1;        // tenants that wait are served tokens in proportion to it
  int32_t max_running = 0;  // requests that have a place at workers; 0 = no bound
  int32_t max_queued = 0;   // requests that wait for their first place; 0 = only the bound of all
};

struct TenantRules {
  TenantRule others;  // whoever has no rule of its own
  std::map<std::string, TenantRule> named;

  const TenantRule& Of(const std::string& tenant) const {
    const auto found = named.find(tenant);
    return found == named.end() ? others : found->second;
  }
};

// After how many failures a request is given up; each at least 1.
struct AttemptLimits {
  int32_t counted = 4;     // attempts that CountsAgainstRequest
  int32_t killed = 3;      // processes that died under it
  int32_t not_finite = 2;  // attempts whose logits were no numbers; those of a third would be none
};

struct RouterOptions {
  std::string served_model_name;             // what requests call the model
  std::vector<std::string> prefill_workers;  // host:port or name:port; empty = decode prefills
  std::vector<std::string> decode_workers;
  std::optional<uint64_t> seed;   // of the generator that draws missing request seeds
  int32_t max_input_length = 0;   // tokens; 0 = what the workers take
  int32_t max_output_length = 0;  // tokens; 0 = what the workers take
  int32_t max_num_queued_reqs = 1024;
  IgnoreEosRule ignore_eos = IgnoreEosRule::kWarn;
  Routing routing = Routing::kLoad;
  // Uncached tokens that decode workers prefill themselves; empty: by what either way would cost.
  std::optional<int32_t> local_prefill_below = 0;
  int64_t max_inflight_bytes = int64_t{1} << 30;  // of messages and prompts in flight
  int64_t client_buffer = int64_t{4} << 20;       // bytes held for a slow client
  int32_t text_threads = 0;                       // of the tokenizing pool; 0 = by the cores
  int64_t text_queue_bytes = int64_t{256} << 20;  // of texts that wait for that pool
  TenantRules tenants;
  bool trust_tenant_header = false;     // callers may name their tenant
  bool share_prefix_cache = false;      // tenants find each other's prefixes
  base::Duration log_stats_interval{};  // of the log's line on the load; 0 = none
  AttemptLimits attempts;
  RouterDeadlines deadlines;

  // Whether it matters to a placement what workers have in their prefix caches.
  bool looks_at_caches() const {
    return ByPrefix(routing) || (local_prefill_below != 0 && !prefill_workers.empty());
  }
};

}  // namespace baton
