// What a worker says about itself, as the router takes it in.
#include <cmath>
#include <string>

#include "baton/worker/v1/status.pb.h"
#include "common/rpc/generation.h"
#include "common/rpc/prefix_report_proto.h"
#include "router/workers/prefix_hints.h"
#include "router/workers/split_cost.h"
#include "router/workers/worker_table.h"
#include "router/workers/worker_watch.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/wire.h"

namespace baton::fuzz {
namespace {

void CheckFacts(const worker_pb::WorkerIdentity& identity) {
  const WorkerFacts facts = FactsFromProto(identity);
  BATON_CHECK(facts.kinds.size() <= 2);
  worker_pb::KvLayout layout;
  KvShapeToProto(facts.layout, &layout);
  BATON_CHECK(KvShapeFromProto(layout) == facts.layout);
  BATON_CHECK(!facts.layout.Describe().empty());
  const KvShape own = {
      .dtype = "float32", .block_size = 16, .layers = 2, .kv_heads = 2, .head_dim = 64};
  if (CanHandOver(facts.layout, own) && facts.layout.tensor_parallel != own.tensor_parallel) {
    BATON_CHECK(facts.layout.heads_per_rank() <= own.kv_heads);
    for (int32_t head = 0; head < own.kv_heads; ++head) {
      const int32_t rank = facts.layout.rank_of(head);
      BATON_CHECK(0 <= rank && rank < facts.layout.tensor_parallel) << rank;
    }
  }
}

// Whatever a worker says can be added to what the router has there, and compared.
void CheckLoad(const worker_pb::WatchResponse& message) {
  const base::Instant now(std::chrono::hours(1));
  const WorkerClaim claim{.tokens = 1000, .growth_tokens = 1000, .computes = true, .decodes = true};
  WorkerTable table({.status_fresh = std::chrono::seconds(2)});
  const WorkerFacts facts = FactsFromProto(message.identity());
  const WorkerKey key{"a", facts.incarnation};
  table.Add(WorkerKind::kDecode, "a", nullptr);
  table.Learn(WorkerKind::kDecode, "a", facts, /*accepted=*/true);
  for (int i = 0; i < 3; ++i) {
    table.Update(WorkerKind::kDecode, "a", LoadFromProto(message), now);
    const WorkerView& view = *table.Find(WorkerKind::kDecode, key);
    BATON_CHECK(view.places_free + i >= 0 && view.blocks_total >= 0 && view.blocks_expected >= 0);
    BATON_CHECK(table.WithPlace(WorkerKind::kDecode).size() == (view.places_free > 0 ? 1 : 0) ||
                table.Serving(WorkerKind::kDecode).empty());
    const PromptSide side = {.times = view.prompt_times,
                             .queued_tokens = view.queued_tokens,
                             .delayed = view.sequences + view.line};
    const SplitChoice choice =
        ChooseSplit({.tokens = 1000, .prefill = side, .decode = side, .handoff = {.known = true}});
    BATON_CHECK(std::isfinite(choice.split_cost.total_s()) && !choice.local);
    BATON_CHECK(table.HealthyContext(now) >= 0 && table.KnownContext() >= 0);
    table.Take(WorkerKind::kDecode, key, claim);
  }
}

// Whatever a worker says of its cache, what is known of it has its bound, and goes with the worker.
void CheckCached(const worker_pb::CachedPrefixes& message) {
  constexpr size_t kMostKnown = 64;
  const base::Instant now(std::chrono::hours(1));
  PrefixHints hints(kMostKnown);
  const WorkerKey key{"a", 1};
  const PrefixReport report = PrefixReportFromProto(message);
  for (int i = 0; i < 3; ++i) hints.Report(key, report, now);
  BATON_CHECK(hints.known() <= kMostKnown) << hints.known();
  const PrefixChain chain = {.block_tokens = 16, .tokens = 33, .blocks = {1, 2}};
  const int64_t held = hints.HeldTokens(key, chain);
  BATON_CHECK(held == 0 || held == 16 || held == 32) << held;
  hints.Drop(key);
  BATON_CHECK(hints.known() == 0) << hints.known();
}

}  // namespace

FUZZ_TARGET(worker_status) {
  worker_pb::WatchResponse message;
  if (!message.ParseFromArray(input.data(), static_cast<int>(input.size()))) return;
  CheckFacts(message.identity());
  CheckLoad(message);
  CheckCached(message.cached());
}

}  // namespace baton::fuzz
