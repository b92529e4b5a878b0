#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/kv_shape.h"
#include "common/base/ticket.h"
#include "common/kv/block_layout.h"

// Words of the transports from device to device, NCCL and cuda_ipc. A *pair* is one prefill device
// and one decode device, joined by a control stream (KvTransferService.Pair) and a two-rank
// communicator that only carries data from the first to the second. A communicator lives for one
// *epoch*; an error ends the epoch on both sides and the next one gets a new communicator. KV moves
// in *parcels*, numbered from 0 in every epoch; parcel 0 is empty and proves the path before the
// pair counts as warm.
//
//   sender                              receiver (rank 0, makes the unique id)
//     PairHello                    ──▶
//                                  ◀──  PairEpoch
//     connect, PairReady           ──▶  connect
//                                  ◀──  PairReady
//     PairAnnounce                 ──▶  waits for its turn, posts its receive
//                                  ◀──  PairGo
//     gather, send                 ══▶  receive, check the header, scatter, check the sums
//                                  ◀──  PairDone
//
// What got PairGo is always sent and received: a sender that lost interest sends the parcel void, a
// receiver that did discards it. An abort, from either side: PairAbort unless both know, each
// aborts its own communicator, PairAborted ──▶, and the next PairEpoch.
namespace baton {

using PairId = uint64_t;  // names a pair in one process

// A part of a block inside a parcel.
struct ParcelPart {
  int32_t ordinal = 0;  // of the block in the sequence's block table
  int64_t offset = 0;   // of the first byte in the block
  int64_t size = 0;

  friend bool operator==(const ParcelPart&, const ParcelPart&) = default;
};

// One parcel in one process.
struct ParcelKey {
  PairId pair = 0;
  uint64_t epoch = 0;
  uint64_t number = 0;

  friend bool operator==(const ParcelKey&, const ParcelKey&) = default;
  friend auto operator<=>(const ParcelKey&, const ParcelKey&) = default;
};

// What both sides agree on before the bytes move. The parcel itself repeats it.
struct ParcelPlan {
  uint64_t number = 0;
  Ticket ticket;  // of the push whose blocks these are
  std::vector<ParcelPart> parts;
  int64_t bytes = 0;  // on the wire: header and payload
};

// --- Messages of the control stream. ---

struct PairHello {
  uint64_t incarnation = 0;
  KvShape shape;
  std::string model_fingerprint;
  std::string way;       // "nccl", "cuda_ipc"
  int32_t version = 0;   // of what moves the bytes; as ncclGetVersion says
  bool checksum = true;  // the parcels have sums; of a receiver: they must
};
struct PairEpoch {
  uint64_t epoch = 0;
  std::string unique_id;
  uint64_t incarnation = 0;
  int32_t version = 0;
  int64_t parcel_bytes = 0;  // largest parcel that the receiver takes
};
struct PairReady {
  uint64_t epoch = 0;
};
struct PairAnnounce {
  uint64_t epoch = 0;
  ParcelPlan plan;
};
struct PairGo {
  uint64_t epoch = 0;
  uint64_t number = 0;
};
enum class ParcelOutcome {
  kWritten,    // in its blocks, sums compared
  kDiscarded,  // received, but there was no place to put it
  kVoid,       // the sender had lost interest
  kBroken,     // not what was announced, or a wrong sum: the epoch is aborted
};
struct PairDone {
  uint64_t epoch = 0;
  uint64_t number = 0;
  ParcelOutcome outcome = ParcelOutcome::kWritten;
};
struct PairAbort {
  uint64_t epoch = 0;
  std::string why;
};
struct PairAborted {
  uint64_t epoch = 0;
};

using ToReceiver = std::variant<PairHello, PairReady, PairAnnounce, PairAbort, PairAborted>;
using ToSender = std::variant<PairEpoch, PairReady, PairGo, PairDone, PairAbort>;

// --- What the thread that makes all calls into a device is told, and what it answers. ---

// Bytes of a block to send, in their order; they stay until the parcel was gathered.
struct SourcePart {
  int32_t ordinal = 0;
  int64_t offset = 0;
  ConstByteParts bytes;
};

struct MakeUniqueId {
  PairId pair = 0;
  uint64_t epoch = 0;
};
struct Connect {
  PairId pair = 0;
  uint64_t epoch = 0;
  std::string unique_id;
  int rank = 0;
};
// Gathers `sources` into staging buffer `buffer` behind the header and sends it; a void parcel has
// no sources.
struct SendParcel {
  ParcelKey key;
  int buffer = 0;
  ParcelPlan plan;
  std::vector<SourcePart> sources;
  bool is_void = false;
};
struct ReceiveParcel {
  ParcelKey key;
  int buffer = 0;
  int64_t bytes = 0;
};
// Checks what a received buffer holds against `plan` and copies it to its blocks.
struct DeliverParcel {
  ParcelKey key;
  int buffer = 0;
  ParcelPlan plan;
};
// Ends the epoch's communicator, if there is one, and forgets its outstanding operations.
struct AbortPair {
  PairId pair = 0;
  uint64_t epoch = 0;
};
// The thread is stuck in a call: what it has not begun is never done. ParcelGathered answers for
// each such SendParcel.
struct AbandonDevice {};
using DeviceCommand = std::variant<MakeUniqueId, Connect, SendParcel, ReceiveParcel, DeliverParcel,
                                   AbortPair, AbandonDevice>;

struct UniqueIdMade {
  PairId pair = 0;
  uint64_t epoch = 0;
  std::string unique_id;
  absl::Status status;
};
struct Connected {
  PairId pair = 0;
  uint64_t epoch = 0;
  absl::Status status;
};
// The sources are not read any more.
struct ParcelGathered {
  ParcelKey key;
};
struct ParcelSent {
  ParcelKey key;
  absl::Status status;
};
// The receive was posted: the peer may send.
struct ReceivePosted {
  ParcelKey key;
  absl::Status status;
};
struct ParcelReceived {
  ParcelKey key;
  absl::Status status;
};
// Comes for every DeliverParcel, whatever became of its epoch.
struct ParcelDelivered {
  ParcelKey key;
  ParcelOutcome outcome = ParcelOutcome::kWritten;
  std::string why;  // of an outcome that is not kWritten
};
// Nothing of this epoch follows but ParcelDelivered; its buffers that are not being delivered are
// idle, its sources unread.
struct DeviceAborted {
  PairId pair = 0;
  uint64_t epoch = 0;
};
using DeviceEvent = std::variant<UniqueIdMade, Connected, ParcelGathered, ParcelSent, ReceivePosted,
                                 ParcelReceived, ParcelDelivered, DeviceAborted>;

// --- Limits. ---

struct PairLimits {
  int max_pairs = 16;  // communicators of one device; each costs device memory
  int buffers = 2;     // staging buffers of one device and direction
  int64_t parcel_bytes = int64_t{16} << 20;  // of a staging buffer, header included
  int max_announced = 4;                     // parcels of a pair announced and not done
  int max_waiting = 64;                      // announced parcels that a receiver bears of one peer
  int turn_parcels = 8;                      // a receiver's grants to a peer while others wait
  int max_failures = 2;                      // then the pair falls back
  base::Duration connect = std::chrono::seconds(20);
  // From the grant to the bytes, and from the bytes to the answer. With `abort` below the time
  // after which a push gives its peer up.
  base::Duration transfer = std::chrono::seconds(4);
  // The receiver's side of it: longer, because the sender may have had to give another receiver up
  // first, whose parcel its device was stuck in.
  base::Duration receive = std::chrono::seconds(6);
  base::Duration abort = std::chrono::seconds(3);
  base::Duration idle = std::chrono::minutes(10);     // then the pair is closed
  base::Duration fallen = std::chrono::minutes(5);    // then a pair that fell back may try again
  base::Duration retry = std::chrono::seconds(5);     // then one that could not begin may
  base::Duration forgive = std::chrono::minutes(10);  // failures older than this are forgotten
};

// What happened to pairs, for metrics.
enum class PairEvent {
  kBuilt,
  kRebuilt,
  kAborted,
  kFallenBack,
  kClosed,
  kRefused,
  kDiscarded,
  kDeviceLost
};

}  // namespace baton
