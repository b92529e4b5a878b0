// What the engine says of itself.
#include <algorithm>
#include <cstdint>

#include "common/base/mutex.h"
#include "common/engine/engine.h"
#include "common/engine/engine_loop.h"
#include "common/sched/scheduler_figures.h"

namespace baton {

EngineFigures EngineLoop::figures() const {
  base::MutexLock lock(&figures_mutex_);
  EngineFigures figures = figures_;
  figures.healthy = healthy_;
  return figures;
}

uint64_t EngineLoop::OperationsFinished() const {
  return runner_->operations_finished() + (source_ == nullptr ? 0 : source_->operations_finished());
}

EngineFigures EngineLoop::Snapshot() const {
  const SchedulerFigures from = scheduler_.figures();
  EngineFigures to;
  to.running = from.running;
  to.waiting = from.waiting;
  to.reserved = from.reserved;
  to.queued_prompt_tokens = from.queued_prompt_tokens;
  to.blocks_total = pool_.total();
  to.blocks_free = pool_.num_free();
  to.blocks_cached = pool_.num_cached();
  to.blocks_quarantined = pool_.num_quarantined();
  to.blocks_used = pool_.num_used();
  to.places = from.places;
  to.seats = options_.max_num_seqs;
  to.seats_asked = from.seats;
  to.short_of_blocks = from.short_of_blocks;
  to.prefill_places_free = std::max(0, from.places - from.running - from.reserved - from.waiting);
  to.ended = from.ended;
  to.foreseen = from.foreseen;
  to.expected_tokens = from.expected_tokens;
  to.expected_kv_tokens = from.expected_kv_tokens;
  to.expected_ends = from.expected_ends;
  to.step_prompt_tokens = std::min(options_.max_prefill_tokens, options_.max_num_batched_tokens);
  to.step_s = step_times_.step_s();
  to.prompt_token_s = step_times_.prompt_token_s();
  to.steps = steps_;
  to.preemptions = from.preemptions;
  to.swap_blocks_total = host_pool_.total();
  to.swap_blocks_used = host_pool_.num_used();
  to.swaps = from.swaps;
  to.swaps_without_room = from.swaps_without_room;
  to.swaps_lost = from.swaps_lost;
  to.blocks_swapped_out = from.blocks_swapped_out;
  to.blocks_swapped_in = from.blocks_swapped_in;
  to.revocations = from.revocations;
  to.reservations_expired = from.reservations_expired;
  to.prefix_queries = from.prefix_queries;
  to.prefix_hits = from.prefix_hits;
  to.evicted_blocks = pool_.evictions();
  to.prompt_tokens_computed = from.prompt_tokens_computed;
  to.prompt_tokens_cached = from.prompt_tokens_cached;
  to.prompt_tokens_received = from.prompt_tokens_received;
  to.generated_tokens = from.generated_tokens;
  to.prefill_chunks = from.prefill_chunks;
  to.largest_batch = from.largest_batch;
  to.steps_overlapped = steps_overlapped_;
  to.rows_ahead = from.rows_ahead;
  to.rows_discarded = from.rows_discarded;
  to.ends_not_finite = from.ends_not_finite;
  to.rows_proposed = from.rows_proposed;
  to.ids_proposed = from.ids_proposed;
  to.ids_accepted = from.ids_accepted;
  to.accepted_at = from.accepted_at;
  if (source_ != nullptr) to.draft = source_->figures();
  to.ids_forced = from.ids_forced;
  to.ids_jumped = from.ids_jumped;
  return to;
}

}  // namespace baton
