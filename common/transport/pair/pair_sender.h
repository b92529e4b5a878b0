#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "common/transport/pair/pair_protocol.h"

namespace baton {

using PushId = uint64_t;

// --- What the sender asks of its surroundings, in this order. ---

struct OpenControl {
  PairId pair = 0;
  std::string address;
};
struct CloseControl {
  PairId pair = 0;
};
struct TellReceiver {
  PairId pair = 0;
  ToReceiver message;
};
// These parts are in their blocks and verified.
struct PartsDone {
  PushId push = 0;
  std::vector<ParcelPart> parts;
};
// These parts will not go through the pair and must be sent another way. From here on every part of
// this push that is settled or added comes back.
struct PartsReturned {
  PushId push = 0;
  std::vector<ParcelPart> parts;
};
// Follows EndPush exactly once: no source byte is read any more.
struct PushReleased {
  PushId push = 0;
};
// For metrics and the log: something happened to a pair.
struct PairNews {
  PairEvent event = PairEvent::kBuilt;
  std::string address;
  std::string why;
};
// For metrics: a parcel was granted.
struct GrantWaited {
  base::Duration waited{};  // from the announcement of a parcel to its grant
  int64_t bytes = 0;
};
using SenderAction = std::variant<OpenControl, CloseControl, TellReceiver, DeviceCommand, PartsDone,
                                  PartsReturned, PushReleased, PairNews, GrantWaited>;

// The sending half of all pairs of one prefill device. It is pure: no thread, clock, I/O or device;
// every call appends to `actions` what is to be done. Not thread-safe.
//
// A pair goes from opening to connecting, proving (by parcel 0) and warm. After an error it is
// aborting and then opening again, or fallen, or gone. A fallen pair answers Warm only after a
// while, which grows with each time in a row, or when the receiver is another process.
class PairSender final {
 public:
  using Actions = std::vector<SenderAction>;

  explicit PairSender(const PairLimits& limits, PairHello hello)
      : limits_(limits),
        hello_(std::move(hello)),
        free_buffers_(static_cast<size_t>(limits.buffers)) {
    for (int buffer = 0; buffer < limits.buffers; ++buffer)
      free_buffers_[static_cast<size_t>(buffer)] = buffer;
  }

  // The router means to push to the process `incarnation` at `address`. Opens a pair unless there
  // is one, it fell back lately, or there is no room.
  void Warm(const std::string& address, uint64_t incarnation, base::Instant now, Actions* actions);
  // True when the pair is warm: the push goes through it, until EndPush. `push` was never used.
  bool StartPush(PushId push, const std::string& address, const Ticket& ticket, base::Instant now);
  // Each part is settled by PartsDone or PartsReturned exactly once, unless EndPush came first.
  void Add(PushId push, std::vector<SourcePart> parts, base::Instant now, Actions* actions);
  // The push is over or was cancelled. Answered by PushReleased.
  void EndPush(PushId push, base::Instant now, Actions* actions);

  void OnMessage(PairId pair, const ToSender& message, base::Instant now, Actions* actions);
  // The control stream ended. `refused` says that the receiver will not have this pair.
  void OnControlClosed(PairId pair, bool refused, const std::string& why, base::Instant now,
                       Actions* actions);
  void OnDevice(const DeviceEvent& event, base::Instant now, Actions* actions);
  // Looks at deadlines. Called at least every 50 ms while there are pairs.
  void Tick(base::Instant now, Actions* actions);

  // Incarnations of the receivers that pushes can go to.
  std::vector<uint64_t> warm() const;
  bool device_lost() const { return device_lost_; }

 private:
  enum class State { kOpening, kConnecting, kProving, kWarm, kAborting, kFallen };
  enum class ParcelState { kAnnounced, kGranted, kSending, kSent };

  struct Parcel {
    ParcelPlan plan;
    PushId push = 0;  // 0 for parcel 0, and when no push wants it any more
    std::vector<SourcePart> sources;
    ParcelState state = ParcelState::kAnnounced;
    int buffer = -1;
    PushId reader = 0;      // the push whose sources are being gathered
    bool launched = false;  // it is on the device's stream
    bool done = false;      // the receiver's answer came before our own completion
    ParcelOutcome outcome = ParcelOutcome::kWritten;
    base::Instant since{};
  };
  struct Pair {
    std::string address;
    uint64_t wanted = 0;       // the incarnation that the router named
    uint64_t incarnation = 0;  // the receiver's
    State state = State::kOpening;
    uint64_t epoch = 0;
    bool connected = false, peer_ready = false;
    bool control = true;   // the control stream is open
    bool leaving = false;  // the pair is forgotten after its abort
    bool refused = false;
    int failures = 0;
    int falls = 0;  // that it fell back, without having been warm since
    base::Instant failed_at{};
    // Of the current state. One that waits for its abort has none yet.
    base::Instant deadline = base::kNever;
    base::Instant used_at{};
    uint64_t next_number = 0;
    int64_t parcel_bytes = 0;
    std::map<uint64_t, Parcel> parcels;  // announced and not done, by number
    std::deque<PushId> line;             // pushes with parts to announce, each once
  };
  struct Push {
    PairId pair = 0;  // 0 when it fell out of its pair
    Ticket ticket;
    std::deque<SourcePart> queue;
    int gathering = 0;
    bool ended = false;
  };

  // Pairs.
  PairId FindPair(const std::string& address) const;
  bool MakeRoom(base::Instant now, Actions* actions);
  Pair& Open(const std::string& address, uint64_t incarnation, base::Instant now, Actions* actions);
  void OnEpoch(PairId id, const PairEpoch& message, base::Instant now, Actions* actions);
  void OnConnected(const Connected& event, base::Instant now, Actions* actions);
  void ProveIfReady(PairId id, base::Instant now, Actions* actions);
  void BecomeWarm(PairId id, base::Instant now, Actions* actions);
  // Ends the epoch and every push's use of the pair. `tell` says that the receiver does not know
  // yet.
  void Abort(PairId id, const std::string& why, bool tell, base::Instant now, Actions* actions);
  // Ends a pair that did nothing wrong.
  void Leave(PairId id, base::Instant now, Actions* actions);
  // After its communicator is gone: rebuild, fall back, or forget.
  void AfterAbort(PairId id, base::Instant now, Actions* actions);
  void Fall(PairId id, PairEvent event, const std::string& why, base::Instant until,
            Actions* actions);
  // How long a pair that fell back so often in a row does not try again.
  base::Duration PauseAfter(int falls) const;
  void LoseDevice(base::Instant now, Actions* actions);
  void TickPair(PairId id, base::Instant now, Actions* actions);

  // The device's stream.
  void OnLaunched(const ParcelLaunched& event, base::Instant now, Actions* actions);
  void LeaveStream(const std::function<bool(const ParcelKey&)>& which, base::Instant now,
                   Actions* actions);
  // Puts the pair in the line for its abort; AbortFirst begins that which has its turn.
  void AwaitAbort(PairId id, base::Instant now, Actions* actions);
  void AbortFirst(base::Instant now, Actions* actions);
  void OnAborted(const DeviceAborted& event, base::Instant now, Actions* actions);
  void ForgiveOthers(PairId id, base::Instant now);
  bool IsStuck(const Pair& pair, PairId id, base::Instant now) const;

  // Parcels.
  void Announce(PairId id, base::Instant now, Actions* actions);
  bool AnnounceOne(PairId id, base::Instant now, Actions* actions);
  void AnnounceParcel(PairId id, Parcel parcel, base::Instant now, Actions* actions);
  void OnGo(PairId id, const PairGo& message, base::Instant now, Actions* actions);
  void OnDone(PairId id, const PairDone& message, base::Instant now, Actions* actions);
  void FillBuffers(base::Instant now, Actions* actions);
  void EndGather(Parcel* parcel, Actions* actions);
  void OnSent(const ParcelSent& event, base::Instant now, Actions* actions);
  void FinishParcel(PairId id, uint64_t number, base::Instant now, Actions* actions);
  // Takes the push off its pair; what it has there comes back unless a parcel of it is under way.
  void DropOut(PushId id, Actions* actions);
  void Return(PushId push, const std::vector<SourcePart>& parts, Actions* actions);
  void ReleaseIfUnread(PushId id, Actions* actions);
  Parcel* FindParcel(const ParcelKey& key);

  const PairLimits limits_;
  const PairHello hello_;
  PairId next_pair_ = 1;
  std::map<PairId, Pair> pairs_;
  std::map<PushId, Push> pushes_;
  std::deque<ParcelKey> granted_;  // waiting for a buffer, in the order of their grants
  std::vector<int> free_buffers_;
  // Parcels that the device has, and pairs that wait for their abort, in the order of the device's
  // stream; what is not launched yet comes last.
  std::deque<ParcelKey> stream_;
  bool device_lost_ = false;
};

}  // namespace baton
