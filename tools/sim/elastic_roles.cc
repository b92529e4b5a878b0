#include "tools/sim/elastic_roles.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace baton::simulator {
namespace {

constexpr base::Duration kLookEvery = std::chrono::milliseconds(250);
// After a change the same worker, and all others, wait so long.
constexpr base::Duration kOwnCoolDown = std::chrono::seconds(5);
constexpr base::Duration kCoolDown = std::chrono::seconds(1);
// What is too much, and what the others may have at most after a change.
constexpr double kPrefillWaitMost = 0.2;  // s
constexpr double kDecodeFillMost = 0.8;
constexpr double kOthersMost = 0.85;
// The part of a mean that the newest look has.
constexpr double kNewestLook = 0.25;

}  // namespace

ElasticRoles::ElasticRoles(const ClusterSetup& setup, Timeline* timeline, const Fleet* fleet)
    : setup_(setup), timeline_(timeline), fleet_(fleet) {
  if (!setup.elastic) return;
  machines_.resize(fleet->decode.size());
  const auto decode = static_cast<size_t>(setup.workers);
  for (size_t i = decode; i < machines_.size(); ++i) machines_[i].role = WorkerKind::kPrefill;
}

void ElasticRoles::Begin(std::function<bool()> over) {
  over_ = std::move(over);
  if (machines_.empty()) return;
  timeline_->After(kLookEvery, [this] { NoteLoad(); });
  for (size_t i = 0; i < machines_.size(); ++i) {
    const base::Duration offset =
        kLookEvery * static_cast<int64_t>(i + 1) / static_cast<int64_t>(machines_.size() + 1);
    timeline_->After(offset, [this, i] { Tick(i); });
  }
}

bool ElasticRoles::Serves(WorkerKind kind, size_t worker) const {
  return machines_.empty() || machines_[worker].role == kind;
}

void ElasticRoles::NoteLoad() {
  if (over_()) return;
  uint64_t computed = 0;
  for (const FleetWorker& worker : fleet_->decode) {
    computed += worker.engine->scheduler().figures().prompt_tokens_computed;
  }
  const double rate =
      static_cast<double>(computed - prompt_tokens_) / base::Seconds(base::Duration(kLookEvery));
  prompt_tokens_per_s_ += kNewestLook * (rate - prompt_tokens_per_s_);
  prompt_tokens_ = computed;
  timeline_->After(kLookEvery, [this] { NoteLoad(); });
}

double ElasticRoles::FillOf(size_t machine) const {
  const VirtualWorker& engine = *fleet_->decode[machine].engine;
  const SchedulerFigures figures = engine.scheduler().figures();
  const double seats = figures.running + figures.reserved + figures.waiting;
  const double blocks = engine.pool().num_used() + engine.pool().num_quarantined();
  return std::max(seats / setup_.worker.scheduler.max_num_seqs,
                  blocks / std::max(1, engine.pool().total()));
}

ElasticRoles::Signals ElasticRoles::Look() const {
  Signals signals;
  double prompt_tokens = 0, fill = 0;
  for (const auto& router : fleet_->routers) {
    prompt_tokens += static_cast<double>(router->wanted().tokens);
  }
  for (size_t i = 0; i < machines_.size(); ++i) {
    if (machines_[i].role == WorkerKind::kPrefill) {
      ++signals.prefill_workers;
      prompt_tokens +=
          static_cast<double>(fleet_->decode[i].engine->scheduler().figures().queued_prompt_tokens);
    } else {
      ++signals.decode_workers;
      fill += FillOf(i);
    }
  }
  const double token_s = 1e-6 * setup_.worker.cost.prompt_token;
  signals.prefill_wait_s = prompt_tokens * token_s / signals.prefill_workers;
  signals.prefill_load = prompt_tokens_per_s_ * token_s / signals.prefill_workers;
  signals.decode_fill = fill / signals.decode_workers;
  return signals;
}

void ElasticRoles::Tick(size_t machine) {
  if (over_()) return;
  timeline_->After(kLookEvery, [this, machine] { Tick(machine); });
  Machine& self = machines_[machine];
  const base::Instant now = timeline_->now();
  if (now - self.since < kOwnCoolDown || now - changed_ < kCoolDown) return;
  const Signals signals = Look();
  const bool decodes = self.role == WorkerKind::kDecode;
  const double same = decodes ? signals.decode_workers : signals.prefill_workers;
  if (same < 2) return;
  const bool other_pressed =
      decodes ? signals.prefill_wait_s > kPrefillWaitMost : signals.decode_fill > kDecodeFillMost;
  const double own = decodes ? signals.decode_fill : signals.prefill_load;
  if (!other_pressed || own * same / (same - 1) > kOthersMost) return;
  self = {.role = decodes ? WorkerKind::kPrefill : WorkerKind::kDecode, .since = now};
  changed_ = now;
  ++changes_;
}

}  // namespace baton::simulator
