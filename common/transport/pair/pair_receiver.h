#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "common/transport/pair/pair_protocol.h"

namespace baton {

// --- What the receiver asks of its surroundings, in this order. ---

struct TellSender {
  PairId pair = 0;
  ToSender message;
};
// Ends the control stream. `refused` says that the sender need not come again soon.
struct EndPeer {
  PairId pair = 0;
  bool refused = false;
  std::string why;
};
// For metrics and the log: something happened to a pair.
struct ReceiverNews {
  PairEvent event = PairEvent::kBuilt;
  PairId pair = 0;
  std::string why;
};
// For metrics: a parcel of so many bytes has arrived.
struct BytesReceived {
  int64_t bytes = 0;
};
using ReceiverAction =
    std::variant<TellSender, EndPeer, DeviceCommand, ReceiverNews, BytesReceived>;

// The receiving half of all pairs of one decode device. Like PairSender it is pure: no thread,
// clock, I/O or device. Not thread-safe.
//
// One peer at a time is granted parcels, at most as many as there are staging buffers, and each
// only after its receive was posted. So the first of the device's receives always has a sender that
// may send, and no cycle of waiting can form.
class PairReceiver final {
 public:
  using Actions = std::vector<ReceiverAction>;

  // `self` is what peers are told: incarnation, version and the size of the staging buffers.
  PairReceiver(const PairLimits& limits, PairEpoch self)
      : limits_(limits),
        self_(std::move(self)),
        free_buffers_(static_cast<size_t>(limits.buffers)) {
    for (int buffer = 0; buffer < limits.buffers; ++buffer)
      free_buffers_[static_cast<size_t>(buffer)] = buffer;
  }

  // A sender that may pair with this worker opened the control stream `pair`, a name never used
  // before.
  void OnPeer(PairId pair, base::Instant now, Actions* actions);
  void OnMessage(PairId pair, const ToReceiver& message, base::Instant now, Actions* actions);
  void OnControlClosed(PairId pair, base::Instant now, Actions* actions);
  void OnDevice(const DeviceEvent& event, base::Instant now, Actions* actions);
  // Looks at deadlines. Called at least every 50 ms while there are peers.
  void Tick(base::Instant now, Actions* actions);

  size_t peers() const { return peers_.size(); }

 private:
  enum class State { kMaking, kConnecting, kLive, kAborting, kAborted };

  struct Grant {
    ParcelPlan plan;
    int buffer = 0;
    base::Instant since{};
  };
  struct Peer {
    State state = State::kMaking;
    uint64_t epoch = 0;
    bool connected = false, peer_ready = false;
    bool peer_aborted = false;  // the sender said PairAborted for this epoch
    bool control = true;
    int aborts = 0;
    base::Instant deadline = base::kNever;
    base::Instant used_at{};
    uint64_t next_number = 0;
    std::deque<ParcelPlan> announced;
    std::map<uint64_t, Grant> grants;  // from the post of the receive to the last byte
  };

  bool MakeRoom(base::Instant now, Actions* actions);
  void BeginEpoch(PairId id, base::Instant now, Actions* actions);
  void OnUniqueId(const UniqueIdMade& event, base::Instant now, Actions* actions);
  void OnConnected(const Connected& event, base::Instant now, Actions* actions);
  void LiveIfReady(PairId id, base::Instant now, Actions* actions);
  void Abort(PairId id, const std::string& why, bool tell, base::Instant now, Actions* actions);
  void OnAborted(const DeviceAborted& event, base::Instant now, Actions* actions);
  void AfterAbort(PairId id, base::Instant now, Actions* actions);
  // Ends the stream and, once its communicator is gone, the peer.
  void Dismiss(PairId id, bool refused, const std::string& why, base::Instant now,
               Actions* actions);
  void LoseDevice(Actions* actions);
  void TickPeer(PairId id, base::Instant now, Actions* actions);

  void OnAnnounce(PairId id, const PairAnnounce& message, base::Instant now, Actions* actions);
  void GrantNext(base::Instant now, Actions* actions);
  // The peer whose turn it is; 0 when none has announced anything.
  PairId NextPeer() const;
  bool OthersWait(PairId id) const;
  void OnPosted(const ReceivePosted& event, base::Instant now, Actions* actions);
  void OnReceived(const ParcelReceived& event, base::Instant now, Actions* actions);
  void OnDelivered(const ParcelDelivered& event, base::Instant now, Actions* actions);
  Peer* FindPeer(PairId pair, uint64_t epoch);

  const PairLimits limits_;
  const PairEpoch self_;
  std::map<PairId, Peer> peers_;
  std::map<ParcelKey, int> delivering_;  // and their buffers, whatever became of their epoch
  std::vector<int> free_buffers_;
  PairId active_ = 0;       // the one peer with grants
  PairId last_active_ = 0;  // after which the next turn is sought
  int turn_ = 0;            // grants of `active_` since its turn began
  bool device_lost_ = false;
};

}  // namespace baton
