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

// The messages and words by which KV moves from device to device, by NCCL or by cuda_ipc. A *pair*
// is one prefill device and one decode device, joined by a control stream (KvTransferService.Pair)
// and a communicator of two ranks that only carries data from the first to the second. A
// communicator lives for one *epoch*; an error ends the epoch on both sides, and the next one gets
// a new communicator. KV moves in *parcels*, numbered from 0 in every epoch. Parcel 0 is empty and
// proves that the devices reach each other before the pair counts as warm.
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
// A parcel that got PairGo is always sent and received: a sender that has lost interest sends it
// void, and a receiver that has lost interest discards it. Either side can abort: it says PairAbort
// unless both know, each side aborts its own communicator, the sender says PairAborted, and the
// receiver begins the next epoch.
namespace baton {

using PairId = uint64_t;  // names a pair in one process

// A part of a block inside a parcel.
struct ParcelPart {
  int32_t ordinal = 0;  // of the block in the sequence's block table
  int64_t offset = 0;   // of the first byte in the block
  int64_t size = 0;

  friend bool operator==(const ParcelPart&, const ParcelPart&) = default;
};

// Names a parcel in one process.
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
  int32_t version = 0;   // version of what moves the bytes, as ncclGetVersion says
  bool checksum = true;  // parcels carry checksums; a receiver's: they must
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
  kWritten,    // it is in its blocks, and the checksums are right
  kDiscarded,  // it was received, but there was no place to put it
  kVoid,       // the sender had lost interest in it
  kBroken,     // it is not what was announced, or a checksum is wrong: the epoch is aborted
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

// Bytes of a block to send, in their order. They stay until the parcel was gathered.
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
// Gathers `sources` into staging buffer `buffer` behind the header and sends it. A void parcel has
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
// Ends the epoch's communicator, if there is one, and forgets its outstanding operations. While a
// transfer of another pair lies on the stream in front of one of its own, the call does not return.
struct AbortPair {
  PairId pair = 0;
  uint64_t epoch = 0;
};
// The thread is stuck in a call, so what it has not begun is never done. ParcelGathered still
// answers each SendParcel among that.
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
// It is on the device's stream, behind what was launched before it.
struct ParcelLaunched {
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
// Answers every DeliverParcel, whatever became of its epoch.
struct ParcelDelivered {
  ParcelKey key;
  ParcelOutcome outcome = ParcelOutcome::kWritten;
  std::string why;  // empty when written
};
// Nothing of this epoch follows but ParcelDelivered. Its buffers that are not being delivered are
// idle, and its sources are no longer read.
struct DeviceAborted {
  PairId pair = 0;
  uint64_t epoch = 0;
};
using DeviceEvent =
    std::variant<UniqueIdMade, Connected, ParcelGathered, ParcelLaunched, ParcelSent, ReceivePosted,
                 ParcelReceived, ParcelDelivered, DeviceAborted>;

// --- Limits. ---

// Bounds and deadlines of pairs. Tests shorten them.
struct PairLimits {
  int max_pairs = 16;  // communicators of one device; each costs device memory
  int buffers = 2;     // staging buffers of one device and direction
  int64_t parcel_bytes = int64_t{16} << 20;  // size of a staging buffer, header included
  int max_announced = 4;                     // parcels of a pair announced and not done
  int max_waiting = 64;  // announced parcels that a receiver takes from one peer
  int turn_parcels = 8;  // a receiver's grants to a peer while others wait
  int max_failures = 2;  // after which the pair falls back
  base::Duration connect = std::chrono::seconds(20);
  // How long a sender waits from the grant to the bytes, once nothing lies in front of them on its
  // stream, and from the bytes to the answer. Together with `abort` it is shorter than the time
  // after which a push gives its peer up.
  base::Duration transfer = std::chrono::seconds(4);
  // How long a receiver waits from the grant to the bytes. It is longer, because the sender may
  // first have had to give another receiver up, in whose parcel its device was stuck.
  base::Duration receive = std::chrono::seconds(6);
  base::Duration abort = std::chrono::seconds(3);
  base::Duration idle = std::chrono::minutes(10);  // after which an unused pair is closed
  // After which a pair that fell back may try again. Each time that it falls back without having
  // been warm doubles it, up to `fallen_most`: every try may cost the receiver a thread and a port,
  // on which NCCL waits for the sender until the process ends.
  base::Duration fallen = std::chrono::minutes(5);
  base::Duration fallen_most = std::chrono::hours(4);
  base::Duration retry =
      std::chrono::seconds(5);  // after which one that could not begin may try again
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
