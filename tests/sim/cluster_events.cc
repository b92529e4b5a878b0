// The part of ClusterSim that hears what the workers say, and makes the checks at the end.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/cluster_sim.h"

namespace baton::sim {

void ClusterSim::HandleEvents(SimWorker* worker) {
  for (SchedEvent& event : worker->TakeEvents()) {
    Track& track = tracks_[track_of_.at({worker, event.sequence})];
    const bool detach = std::holds_alternative<DetachEvent>(event.what);
    if (track.over && !detach) Broken("an event after the end");
    std::visit([&](const auto& what) { Handle(&track, what); }, event.what);
  }
}

void ClusterSim::Handle(Track* track, const BlocksGranted& granted) {
  if (track->granted) Broken("granted twice");
  track->granted = true;
  track->lease_out = true;
  for (const BlockAt& at : granted.lease) {
    track->lease[at.ordinal] = track->worker->kv().bytes(at.block);
  }
}

void ClusterSim::Handle(Track* track, const RefusedEvent&) {
  track->over = true;
  ++coverage_.refused;
  Request& request = requests_[track->request];
  if (IsCurrent(*track)) EndAttempt(&request);
}

void ClusterSim::Handle(Track* track, const StateEvent& state) {
  if (state.from != track->state) Broken("a state was skipped");
  track->state = state.to;
}

void ClusterSim::Handle(Track* track, const BlocksProven& proven) {
  if (track->last_ready) Broken("blocks after the last ones");
  track->lease_out = true;
  track->last_ready = proven.last;
  const KvCache& kv = track->worker->kv();
  if (proven.last && !proven.blocks.empty()) {
    const kernels::KvLayout& layout = kv.layout();
    ZeroUnused({2 * layout.layers * layout.kv_heads, layout.block_size, proven.last_block_tokens},
               kv.bytes(proven.blocks.back().block));
  }
  for (const BlockAt& at : proven.blocks) {
    if (at.ordinal != static_cast<int32_t>(track->ready.size())) Broken("a gap in ready blocks");
    const auto bytes = kv.bytes(at.block);
    track->ready[at.ordinal] = {bytes, {bytes.begin(), bytes.end()}};
  }
}

void ClusterSim::Handle(Track* track, const ScoresEvent& scores) {
  Request& request = requests_[track->request];
  if (!IsCurrent(*track)) return;
  if (scores.first_index != request.score_from()) Broken("scores out of order");
  for (const TokenScore& score : scores.scores) {
    const auto at = static_cast<size_t>(request.scored++);
    if (at >= request.spec.prompt.size()) return Broken("a score behind the prompt");
    const uint64_t history =
        FakeHistoryHash(track->worker->kv().layout(), std::span(request.spec.prompt).first(at));
    if (score.logprob != FakeScore(history, request.spec.prompt[at], 0).logprob) {
      Broken("another score");
    }
    ++coverage_.scores;
  }
}

void ClusterSim::Handle(Track* track, const TokenEvent& token) {
  Request& request = requests_[track->request];
  if (!IsCurrent(*track)) return;  // of an attempt that the router has left
  if (request.score_from()) Broken("a token before the scores of the prompt");
  Accept(&request, token.token, token.index);
  if (track->side == Side::kPrefill) request.first = token.token;
}

void ClusterSim::Handle(Track* track, const FinishedEvent& finished) {
  track->over = true;
  track->reason = finished.reason;
  Request& request = requests_[track->request];
  const bool prefill = track->side == Side::kPrefill;
  if (!IsCurrent(*track)) {
    if (track->lease_out && prefill && track->state == SequenceState::kDone) {
      track->return_at_tick = tick_ + dice_.Int(0, 30);
    }
    return;
  }
  if (finished.reason == FinishReason::kDeadline) {
    ++coverage_.deadlines;
    request.done = true;
    EndAttempt(&request);
  } else if (finished.reason == FinishReason::kNone) {
    if (!prefill) Broken("a decoding sequence finished without a reason");
  } else {
    if (prefill) ++coverage_.ended_at_first_token;
    Complete(&request, finished.reason);
  }
}

void ClusterSim::Handle(Track* track, const RevokedEvent&) {
  track->over = true;
  if (IsCurrent(*track)) EndAttempt(&requests_[track->request]);
}

void ClusterSim::Handle(Track* track, const DetachEvent&) {
  if (!track->over) Broken("detached before the end");
  if (track->committed) return;  // the commit is on its way and ends the lease
  track->lease_out = true;
  track->return_at_tick = tick_ + dice_.Int(0, 40);
  if (track->return_at_tick > tick_) ++coverage_.late_returns;
}

// Until now a transfer may have written into the lease, or read from it: writes must hurt nobody,
// reads must have seen what was ready.
void ClusterSim::ReturnLease(Track* track) {
  for (auto& [ordinal, bytes] : track->lease) std::ranges::fill(bytes, std::byte{0xEE});
  for (const auto& [ordinal, ready] : track->ready) {
    if (!std::ranges::equal(ready.bytes, ready.copy)) Broken("a leased block was overwritten");
  }
  track->lease_out = false;
  track->worker->scheduler().ReturnLease(track->id);
}

void ClusterSim::Accept(Request* request, const SampledToken& token, int32_t index) {
  const auto next = static_cast<int32_t>(request->accepted.size());
  if (index != next) {
    return Broken(absl::StrCat("index ", index, " came, expected ", next));
  }
  if (static_cast<size_t>(next) >= request->expected.tokens.size())
    return Broken("a token too many");
  const TokenId expected = request->expected.tokens[static_cast<size_t>(next)];
  if (token.token != expected) {
    Broken(absl::StrCat("token ", index, " is ", token.token, ", undisturbed it is ", expected));
  }
  request->accepted.push_back(token.token);
  const bool eos = (token.token == 2 || token.token == 3) && !token.only_end;
  if ((token.natural_end || eos) && !request->natural_end) request->natural_end = index + 1;
}

bool ClusterSim::IsCurrent(const Track& track) const {
  const Request& request = requests_[track.request];
  return !request.done && request.decode && request.attempt == track.attempt;
}

ClusterSim::Track* ClusterSim::DecodeTrack(const Request& request) {
  return &tracks_[*request.decode];
}
ClusterSim::Track* ClusterSim::PrefillTrack(const Request& request) {
  return &tracks_[*request.prefill];
}

void ClusterSim::Broken(std::string what) {
  if (broken_.empty()) broken_ = std::move(what);
}

std::string ClusterSim::CheckEmpty() const {
  const auto check = [](SimWorker& worker) -> std::string {
    const BlockPool& pool = worker.pool();
    if (worker.scheduler().live() != 0) return "a sequence was left behind";
    if (pool.num_free() + pool.num_cached() != pool.total()) return "a block was left behind";
    return "";
  };
  for (const auto* workers : {&decoders_, &prefillers_}) {
    for (const auto& worker : *workers) {
      if (std::string broken = check(*worker); !broken.empty()) return broken;
    }
  }
  return "";
}

void ClusterSim::Collect(Coverage* coverage) const {
  coverage->finished += coverage_.finished;
  coverage->cancelled += coverage_.cancelled;
  coverage->deadlines += coverage_.deadlines;
  coverage->refused += coverage_.refused;
  coverage->attempts += coverage_.attempts;
  coverage->resumed += coverage_.resumed;
  coverage->imported += coverage_.imported;
  coverage->ended_at_first_token += coverage_.ended_at_first_token;
  coverage->late_returns += coverage_.late_returns;
  coverage->late_commits += coverage_.late_commits;
  coverage->scores += coverage_.scores;
  coverage->ended_by_grammar += coverage_.ended_by_grammar;
  for (const auto* workers : {&decoders_, &prefillers_}) {
    for (const auto& worker : *workers) {
      const SchedulerFigures figures = worker->scheduler().figures();
      coverage->preemptions += figures.preemptions;
      coverage->displaced += figures.displaced;
      coverage->swaps += figures.swaps;
      coverage->swaps_without_room += figures.swaps_without_room;
      coverage->swaps_lost += figures.swaps_lost;
      coverage->blocks_swapped_in += figures.blocks_swapped_in;
      coverage->revocations += figures.revocations;
      coverage->chunks += figures.prefill_chunks;
      coverage->prefix_hits += figures.prefix_hits;
      coverage->steps += worker->steps();
      coverage->ids_accepted += figures.ids_accepted;
      coverage->ids_rejected += figures.ids_proposed - figures.ids_accepted;
      coverage->ids_forced += figures.ids_forced;
      coverage->ids_jumped += figures.ids_jumped;
      coverage->rows_ahead += figures.rows_ahead;
      coverage->rows_discarded += figures.rows_discarded;
      coverage->held_back += worker->held_back();
      coverage->ended_behind_two += worker->ended_behind_two();
    }
  }
}

}  // namespace baton::sim
