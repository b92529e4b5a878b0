#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/kv_shape.h"
#include "router/workers/split_cost.h"

namespace baton {

struct WorkerLink;

enum class WorkerKind { kPrefill, kDecode };
inline constexpr WorkerKind kWorkerKinds[] = {WorkerKind::kPrefill, WorkerKind::kDecode};
inline std::string_view WorkerKindName(WorkerKind kind) {
  return kind == WorkerKind::kPrefill ? "prefill" : "decode";
}

// Names one process of a worker. After a restart at the same address it is another one.
struct WorkerKey {
  std::string address;
  uint64_t incarnation = 0;
  friend bool operator==(const WorkerKey&, const WorkerKey&) = default;
  friend auto operator<=>(const WorkerKey&, const WorkerKey&) = default;
};

// What a worker says about itself once, when its Watch begins.
struct WorkerFacts {
  uint64_t incarnation = 0;
  std::set<WorkerKind> kinds;  // what it serves
  std::string fingerprint;
  std::string text_fingerprint;  // "" from a worker that does not tell
  KvShape layout;
  std::string numerics;
  std::string compute_dtype;
  std::string push_address;
  int32_t protocol_major = 0, protocol_minor = 0;
  int32_t max_model_len = 0;
  std::vector<std::string> kv_transports;  // beside messages: "nccl", "cuda_ipc"
};

// What a router may have at a worker at once, what it has included.
struct WorkerShare {
  int64_t places = 0;
  int64_t prompt_tokens = 0;  // that are being computed; the last prompt may go beyond
};

// What a worker says about itself again and again.
struct WorkerLoad {
  bool takes_new = false;   // ready, and not shutting down, of the kind that it is listed as
  bool other_role = false;  // it does not because it takes those of its other role
  int32_t prefill_places_free = 0;  // whoever uses them
  int64_t queued_prompt_tokens = 0;
  int32_t blocks_total = 0;
  int32_t blocks_in_use = 0;         // or in quarantine
  std::vector<uint64_t> warm_pairs;  // of a prefill worker: decode workers it has a pair with
  std::optional<WorkerShare> share;  // empty from older workers
  bool draining = false;             // for the page only
  int32_t running = 0, waiting = 0;  // sequences
  // What is foreseen of those that run: of how many of them something is, and over these the tokens
  // that they draw yet, and the tokens in the KV cache times those to come.
  int32_t foreseen = 0;
  double expected_tokens = 0, expected_kv_tokens = 0;
  PromptTimes prompt_times;
  double fill = 0;         // as one that decodes: 1 is all that it can bear
  double prompt_load = 0;  // the share of its time that prompts took lately
};

// What is known of a worker at one moment, for a placement decision: its last status and what this
// router did since.
struct WorkerView {
  std::shared_ptr<WorkerLink> link;
  std::string address;
  WorkerFacts facts;
  bool serving = true;             // it gets requests
  int64_t places_free = 0;         // of this router's share
  int64_t prompt_tokens_free = 0;  // likewise
  int64_t queued_tokens = 0;       // prompt tokens before a new one, own placements added
  int64_t sequences = 0;           // that it runs or that wait there, own placements added
  int64_t line = 0;  // prompts that this router sent since it last had none to compute
  PromptTimes prompt_times;
  int32_t blocks_total = 0;
  int64_t blocks_expected = 0;  // in use at the peak of what runs, own placements added
  // KV tokens in use times the steps for which they are expected to stay, in sum, own placements
  // added; negative where workers foresee nothing.
  double kv_remaining = -1;
  base::Instant full_until{};        // answered FULL lately
  base::Instant fresh_until{};       // what its last status said is too old then
  std::vector<uint64_t> warm_pairs;  // of a prefill worker: decode workers it has a pair with

  WorkerKey key() const { return {address, facts.incarnation}; }
  // The tokens of all its KV blocks.
  int64_t pool_tokens() const {
    return int64_t{blocks_total} * std::max(1, facts.layout.block_size);
  }
  // The most tokens that one sequence may have here, if it has the pool for itself.
  int64_t context() const { return std::min<int64_t>(facts.max_model_len, pool_tokens()); }
};

using WorkerViews = std::span<const WorkerView* const>;

}  // namespace baton
