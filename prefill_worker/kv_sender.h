#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/engine/engine.h"
#include "common/transport/kv_transport.h"
#include "common/worker/worker_core.h"

namespace baton {

// How one push ended.
struct PushOutcome {
  absl::Status status;  // OK only when the decode worker committed
  int32_t blocks = 0;   // handed to the transport, skipped ones not counted
  int64_t bytes = 0;
};

// The sending end of one attempt's push: skips what the decode worker holds, keeps the reservation
// alive, and gives up on a peer that accepts nothing. Thread-safe; no call waits for a peer.
class KvSender final : public KvPushObserver, public std::enable_shared_from_this<KvSender> {
 public:
  // The first `skip_blocks` blocks are not sent. `target` is the decode worker's layout, to which
  // this worker can hand over. `done` is called exactly once, when no byte of any block can be read
  // any more, and is dropped then, because it may own the object that owns this.
  KvSender(WorkerCore* core, int32_t skip_blocks, KvShape target,
           std::function<void(const PushOutcome&)> done);

  // `traceparent` is of the span that the push works for; "" = none.
  void Open(KvTransport* transport, const std::string& address, const Ticket& ticket,
            const std::string& traceparent = {});
  // Sends blocks in the order of their ordinals. The last one holds KV of `used_tokens` tokens of
  // this sequence; the rest of it is zeroed, so that nothing of the block's former owners leaves.
  void Send(const std::vector<LeasedBlock>& blocks, int32_t used_tokens);
  void Commit(int32_t index, const SampledToken& first, double unix_time);
  // Ends the push; `why` becomes its outcome unless it was over.
  void Cancel(const absl::Status& why);
  // So many tokens of the prompt are computed: what signs of life say.
  void NoteComputed(int32_t tokens);

  void OnPushDone(absl::Status status) override;

 private:
  absl::Status ZeroRest(const LeasedBlock& block, int32_t used_tokens) const;
  void Tick();
  void Schedule();

  WorkerCore* const core_;
  const int32_t skip_blocks_;
  const KvShape target_;
  base::Mutex mutex_;
  std::function<void(const PushOutcome&)> done_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<KvPush> push_ ABSL_GUARDED_BY(mutex_);  // shared with the transport
  absl::Status why_ ABSL_GUARDED_BY(mutex_);              // of this worker's own cancel
  PushOutcome outcome_ ABSL_GUARDED_BY(mutex_);
  // When the first blocks were sent, or the commit where there was nothing to send.
  base::Instant first_sent_ ABSL_GUARDED_BY(mutex_){};
  base::Instant committed_ ABSL_GUARDED_BY(mutex_){};
  base::Instant last_progress_ ABSL_GUARDED_BY(mutex_){};
  int32_t computed_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton
