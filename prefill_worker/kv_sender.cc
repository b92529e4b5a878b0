#include "prefill_worker/kv_sender.h"

#include <algorithm>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/status.h"

namespace baton {
namespace {

absl::Status Stuck(base::Duration limit) {
  return absl::UnavailableError("the decode worker accepted nothing for " +
                                std::to_string(base::Seconds(limit)) + " s");
}

}  // namespace

KvSender::KvSender(WorkerCore* core, int32_t skip_blocks, KvShape target,
                   std::function<void(const PushOutcome&)> done)
    : core_(core), skip_blocks_(skip_blocks), target_(std::move(target)), done_(std::move(done)) {}

void KvSender::Open(KvTransport* transport, const std::string& address, const Ticket& ticket,
                    const std::string& traceparent) {
  const WorkerIdentity& self = core_->identity();
  auto push = transport->Open(address,
                              {.ticket = ticket,
                               .shape = target_,
                               .model_fingerprint = self.model_fingerprint,
                               .numerics = self.numerics,
                               .traceparent = traceparent},
                              shared_from_this());
  bool over = false;
  {
    base::MutexLock lock(&mutex_);
    last_progress_ = core_->clock().Now();
    over = over_ || !why_.ok();
    if (!over_) push_ = push;
  }
  if (over) return push->Cancel();
  Schedule();
}

absl::Status KvSender::ZeroRest(const LeasedBlock& block, int32_t used_tokens) const {
  const BlockRows rows = BlockRows::Of(core_->identity().shape, used_tokens);
  if (used_tokens == rows.block_size) return absl::OkStatus();
  for (const std::span<std::byte> rank : block.ranks()) {
    BATON_RETURN_IF_ERROR(core_->blocks().Zero(rows, rank));
  }
  return absl::OkStatus();
}

void KvSender::Send(const std::vector<LeasedBlock>& blocks, int32_t used_tokens) {
  std::vector<KvSource> sources;
  for (const LeasedBlock& block : blocks) {
    if (block.ordinal < skip_blocks_) continue;
    sources.push_back({block.ordinal, InOrderOf(target_, core_->identity().shape, block.ranks())});
  }
  if (sources.empty()) return;
  const absl::Status zeroed = ZeroRest(blocks.back(), used_tokens);
  if (!zeroed.ok()) return Cancel(zeroed);
  base::Failpoint("pushing");
  std::shared_ptr<KvPush> push;
  {
    base::MutexLock lock(&mutex_);
    if (over_ || !why_.ok()) return;
    push = push_;
    if (outcome_.blocks == 0) first_sent_ = core_->clock().Now();
    outcome_.blocks += static_cast<int32_t>(sources.size());
    for (const KvSource& source : sources) {
      outcome_.bytes += static_cast<int64_t>(source.size());
    }
  }
  push->Send(std::move(sources));
}

void KvSender::Commit(int32_t index, const SampledToken& first, double unix_time) {
  base::Failpoint("committing");
  std::shared_ptr<KvPush> push;
  PushCommitment commitment{.first_index = index,
                            .first_token = first,
                            .unix_time = unix_time,
                            .probe_digest = core_->identity().probe_digest};
  {
    base::MutexLock lock(&mutex_);
    if (over_ || !why_.ok()) return;
    push = push_;
    commitment.block_count = outcome_.blocks;
    commitment.byte_count = outcome_.bytes;
    committed_ = core_->clock().Now();
    if (outcome_.blocks == 0) first_sent_ = committed_;
  }
  push->Commit(std::move(commitment));
}

void KvSender::Cancel(const absl::Status& why) {
  std::shared_ptr<KvPush> push;
  {
    base::MutexLock lock(&mutex_);
    if (over_ || !why_.ok()) return;
    why_ = why;
    push = push_;
  }
  if (push != nullptr) push->Cancel();
}

void KvSender::NoteComputed(int32_t tokens) {
  base::MutexLock lock(&mutex_);
  computed_tokens_ = std::max(computed_tokens_, tokens);
}

void KvSender::OnPushDone(absl::Status status) {
  PushOutcome outcome;
  std::function<void(const PushOutcome&)> done;
  {
    base::MutexLock lock(&mutex_);
    over_ = true;
    done = std::exchange(done_, nullptr);
    push_.reset();
    const base::Instant now = core_->clock().Now();
    // This worker's own reason says more than the CANCELLED that it caused. A push that ended OK is
    // committed, whatever was wished meanwhile.
    outcome_.status = status.ok() || why_.ok() ? std::move(status) : why_;
    outcome = outcome_;
    if (outcome.status.ok()) {
      core_->probe().PushDone(outcome.bytes, committed_ - first_sent_, now - committed_);
    }
  }
  done(outcome);
}

void KvSender::Schedule() {
  const base::Duration tick = std::min(core_->timeouts().progress, core_->timeouts().piece / 10);
  core_->timers().After(tick, [weak = weak_from_this()] {
    if (auto sender = weak.lock()) sender->Tick();
  });
}

void KvSender::Tick() {
  std::shared_ptr<KvPush> push;
  int32_t computed_tokens = 0;
  bool progress = false;
  {
    base::MutexLock lock(&mutex_);
    if (over_) return;
    push = push_;
    computed_tokens = computed_tokens_;
    const base::Instant now = core_->clock().Now();
    progress = now - last_progress_ >= core_->timeouts().progress;
    if (progress) last_progress_ = now;
  }
  const base::Instant since = push->waiting_since();
  if (since != base::kNever && core_->clock().Now() - since > core_->timeouts().piece) {
    Cancel(Stuck(core_->timeouts().piece));
  } else if (progress) {
    push->Progress(computed_tokens);
  }
  Schedule();
}

}  // namespace baton
