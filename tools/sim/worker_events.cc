// What workers say of requests, and the hand-off between them.
#include <algorithm>
#include <chrono>
#include <variant>

#include "tools/sim/request_lives.h"

namespace baton::simulator {

void RequestLives::HearDecode(uint32_t worker, uint32_t request, SequenceId id,
                              const SchedEvent& event) {
  VirtualWorker& engine = *fleet_->decode[worker].engine;
  // Nobody writes to blocks whose push has ended.
  if (std::holds_alternative<DetachEvent>(event.what)) engine.ReturnLease(id);
  const Life* const life = Find(request);
  if (life == nullptr || !life->attempt || life->attempt->decode != worker ||
      life->attempt->decode_seq != id) {
    return;
  }
  const int32_t number = life->attempt->number;
  if (const auto* token = std::get_if<TokenEvent>(&event.what)) {
    const bool first = life->attempt->place.local && token->index + 1 == life->attempt->first_step;
    if (first) Mail([this, request, number] { FirstToken(request, number); });
  } else if (const auto* granted = std::get_if<BlocksGranted>(&event.what)) {
    Mail([this, request, number, cached = granted->cached_blocks] {
      Reserved(request, number, cached);
    });
  } else if (const auto* state = std::get_if<StateEvent>(&event.what)) {
    if (state->from != SequenceState::kReserved || state->to != SequenceState::kDecoding) return;
    Mail([this, request, number] { Started(request, number); });
  } else if (std::holds_alternative<RefusedEvent>(event.what) ||
             std::holds_alternative<RevokedEvent>(event.what)) {
    const bool full = std::holds_alternative<RefusedEvent>(event.what);
    Mail([this, request, number, full] { NoRoom(request, number, full); });
  } else if (const auto* finished = std::get_if<FinishedEvent>(&event.what)) {
    if (finished->reason == FinishReason::kAborted) return;
    Mail([this, request, number, end = *finished] { Done(request, number, end, false); });
  }
}

void RequestLives::HearPrefill(uint32_t worker, uint32_t request, SequenceId id,
                               const SchedEvent& event) {
  VirtualWorker& engine = *fleet_->prefill[worker].engine;
  const auto* const finished = std::get_if<FinishedEvent>(&event.what);
  // Nothing is to be committed after an end, so nobody reads the blocks any more.
  const bool ended = finished != nullptr && finished->reason != FinishReason::kNone;
  if (ended || std::holds_alternative<DetachEvent>(event.what)) engine.ReturnLease(id);
  const Life* const life = Find(request);
  if (life == nullptr || !life->attempt || life->attempt->prefill_seq != id ||
      life->attempt->prefill != worker) {
    return;
  }
  const int32_t number = life->attempt->number;
  if (const auto* proven = std::get_if<BlocksProven>(&event.what)) {
    Attempt* const attempt = Current(request, number);
    if (ahead_->on() && !attempt->granted) return PushAhead(attempt, request, *proven);
    Push(*attempt, request, id, *proven);
  } else if (std::holds_alternative<TokenEvent>(event.what)) {
    Mail([this, request, number] { FirstToken(request, number); });
  } else if (std::holds_alternative<RefusedEvent>(event.what)) {
    Mail([this, request, number] { NoPromptTaken(request, number); });
  } else if (ended && finished->reason != FinishReason::kAborted) {
    Mail([this, request, number, end = *finished] { Done(request, number, end, true); });
  }
}

// The place is asked for when what is left to compute takes no longer than sending it all.
void RequestLives::PushAhead(Attempt* attempt, uint32_t request, const BlocksProven& proven) {
  attempt->to_push.push_back(proven);
  const WorkerSetup& worker = setup_.worker;
  const double all = asked_[request].input_tokens + attempt->first_step - 1;
  const double send_s = all * setup_.kv_bytes_per_token / setup_.handoff_bytes_per_s;
  if (proven.last) {
    ahead_->NoteTime(
        timeline_->now() - attempt->opened +
        std::chrono::duration_cast<base::Duration>(std::chrono::duration<double>(send_s)));
  }
  int32_t blocks = 0;
  for (const BlocksProven& part : attempt->to_push) {
    for (const BlockAt& block : part.blocks) blocks = std::max(blocks, block.ordinal + 1);
  }
  const double left = std::max(0.0, all - double{1} * blocks * worker.scheduler.block_size);
  if (!proven.last && 1e-6 * worker.cost.prompt_token * left > send_s) return;
  if (!std::exchange(attempt->asked, true)) Reserve(request, attempt->number);
}

// Blocks leave one after the other, as fast as the worker sends.
void RequestLives::Push(const Attempt& attempt, uint32_t request, SequenceId id,
                        const BlocksProven& proven) {
  base::Instant& link_free = link_free_[attempt.prefill];
  const auto blocks = std::ranges::count_if(
      proven.blocks, [&](const BlockAt& block) { return block.ordinal >= attempt.skip_blocks; });
  const double bytes =
      static_cast<double>(blocks) * setup_.worker.scheduler.block_size * setup_.kv_bytes_per_token;
  const auto takes = std::chrono::duration_cast<base::Duration>(
      std::chrono::duration<double>(bytes / setup_.handoff_bytes_per_s));
  link_free = std::max(link_free, timeline_->now()) + takes;
  counts_.handoff_bytes += bytes;
  if (!proven.last) return;
  ++counts_.handoffs;
  const int32_t number = attempt.number;
  const uint32_t prefill = attempt.prefill;
  timeline_->At(link_free + setup_.message, [this, request, number, prefill, id] {
    if (const Attempt* const now = Current(request, number)) {
      SampledToken first = AnswerAt(asked_[request], now->first_step, setup_.worker.forced_lengths);
      fleet_->decode[now->decode].engine->CommitImport(now->decode_seq, now->first_step,
                                                       std::move(first));
    }
    Mail([this, prefill, id] { fleet_->prefill[prefill].engine->ReturnLease(id); });
  });
}

}  // namespace baton::simulator
