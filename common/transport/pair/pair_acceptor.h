#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/ticket_table.h"
#include "common/base/timer_queue.h"
#include "common/transport/kv_transport.h"
#include "common/transport/pair/pair_device.h"
#include "common/transport/pair/pair_receiver.h"
#include "common/transport/pair/pair_transport.h"
#include "common/transport/transport_probe.h"

namespace baton {

// The receiving half of PairTransport: the pairs of one decode device, and the open pushes to which
// their parcels belong. Thread-safe; no call blocks.
class PairAcceptor final {
 public:
  // How the server of a control stream is reached. Both are called with a lock held and must only
  // start something.
  struct PeerPort {
    std::function<void(const ToSender&)> send;
    std::function<void(absl::Status)> end;
  };

  // `self` is this worker as PairHello describes the other; another model, layout, way or version
  // is refused. `clock` and `probe` outlive the acceptor.
  static absl::StatusOr<std::unique_ptr<PairAcceptor>> Start(PairParts parts, PairHello self,
                                                             const base::Clock* clock,
                                                             TransportProbe* probe);
  ~PairAcceptor();

  // The pushes that are open, from their first message to the end of their stream.
  TicketTable<KvInbox>& pushes() { return pushes_; }

  // A control stream began with `hello`. Returns its name, or why it is refused. `port` is used
  // until Closed.
  absl::StatusOr<PairId> OnHello(const PairHello& hello, PeerPort port);
  void OnMessage(PairId pair, const ToReceiver& message);
  void Closed(PairId pair);

 private:
  PairAcceptor(const PairLimits& limits, PairHello self, const base::Clock* clock,
               TransportProbe* probe);

  absl::Status Check(const PairHello& hello) const;
  void Schedule();
  void Drive(const std::function<void(PairReceiver*, base::Instant, PairReceiver::Actions*)>& step);
  void Apply(ReceiverAction action) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Note(const ReceiverNews& news);

  const PairHello self_;
  std::function<absl::Status(int)> check_version_;  // compares a peer's
  const base::Clock* const clock_;
  TransportProbe* const probe_;
  base::Mutex mutex_;
  PairReceiver machine_ ABSL_GUARDED_BY(mutex_);
  PairId next_pair_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<PairId, PeerPort> peers_ ABSL_GUARDED_BY(mutex_);
  TicketTable<KvInbox> pushes_;
  // Both run Drive from their threads until they are gone, so they go first, and by no reset, which
  // would set a pointer to null before its object's thread has ended.
  std::unique_ptr<PairDevice> device_;
  base::TimerQueue timers_;
};

}  // namespace baton
