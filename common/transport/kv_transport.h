#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/eos_signal.h"
#include "common/base/kv_shape.h"
#include "common/base/ticket.h"
#include "common/kv/block_layout.h"

// Moves KV blocks from the memory of one worker into that of another. A transport knows peers and
// bytes, not requests.
//
// One push carries the blocks of one reservation: it is opened, takes blocks, and ends with a
// commit. The sender holds a KvPush and is told its end as a KvPushObserver:
//
//   std::shared_ptr<KvPush> push = transport->Open(
//       "decode-3:50061", {.ticket = ticket, .shape = shape_of_the_receiver, ...}, observer);
//   push->Send({{.ordinal = 0, .parts = bytes_of_block_0}});  // as soon as blocks are final
//   push->Send({{.ordinal = 1, .parts = bytes_of_block_1}});
//   push->Commit({.block_count = 2, .byte_count = 2 * block_bytes, .first_token = token, ...});
//   // observer->OnPushDone(OK): both blocks stand in the receiver's memory, verified.
//
// At the receiver the transport asks a KvInboxes for the inbox that the ticket opens, and calls
// that:
//
//   absl::StatusOr<std::shared_ptr<KvInbox>> inbox = inboxes->Open(hello, reply);
//   (*inbox)->Write(piece);         // for each piece
//   (*inbox)->Commit(commitment);   // the inbox then calls reply->Answer(2)
//   (*inbox)->Closed();
//
// Every transport passes tests/common/transport/contract_test.cc.
namespace baton {

// Largest piece of a block that travels as one message.
constexpr size_t kMaxPieceBytes = size_t{1} << 20;

// What a sender says first. The receiver refuses another shape or model than its own.
struct PushHello {
  Ticket ticket;
  KvShape shape;  // the receiver's, in which the blocks are sent
  std::string model_fingerprint;
  std::string numerics;
  std::string traceparent = {};  // of the sender's span; "" = it is not traced
};

// A block to send, in the order of the receiver's layout. Its bytes stay unchanged until the push
// is done.
struct KvSource {
  int32_t ordinal = 0;  // in the sequence's block table
  ConstByteParts parts;

  size_t size() const { return SizeOf(parts); }
};

// A part of a block on its way.
struct KvPiece {
  int32_t ordinal = 0;
  int64_t offset = 0;  // of the first byte in the block
  // The bytes, one after the other: as many parts as the network made of them.
  ConstByteParts parts;
  uint32_t crc32c = 0;  // of all bytes, computed by the sender
  // The copy that `parts` lie in, if the host cannot read the sender's blocks themselves.
  std::shared_ptr<const std::byte[]> copy;

  size_t size() const { return SizeOf(parts); }
};

// The end of a push: what was sent, and the token with which decoding goes on.
struct PushCommitment {
  int32_t block_count = 0;
  int64_t byte_count = 0;
  int32_t first_index = 0;
  SampledToken first_token;
  double unix_time = 0;       // when sampled
  uint64_t probe_digest = 0;  // of the sender's probe: WorkerIdentity
};

// --- Sender. ---

// The owner of a push. Called from a transport's thread: must not block.
class KvPushObserver {
 public:
  virtual ~KvPushObserver() = default;
  // Called exactly once per push. `status` is OK only if the receiver committed; else it is the
  // receiver's refusal, or says what broke. From here on nobody reads the source bytes. Therefore
  // it may take after a Cancel until the connection to a peer that reads nothing is given up.
  virtual void OnPushDone(absl::Status status) = 0;
};

// The sending end of one push. Thread-safe; no call blocks; calls after the end have no effect.
class KvPush {
 public:
  virtual ~KvPush() = default;

  // Queues blocks. The caller bounds them: they are blocks of one sequence.
  virtual void Send(std::vector<KvSource> blocks) = 0;
  // Tells the receiver that the prompt is still being computed. Skipped while pieces are on their
  // way, which tell it too, and without effect after Commit.
  virtual void Progress(int32_t computed_tokens) = 0;
  // Ends the push after everything sent so far. Nothing may follow but Cancel.
  virtual void Commit(PushCommitment commitment) = 0;
  // Gives the push up. OnPushDone still comes.
  virtual void Cancel() = 0;

  // Since when the peer has not accepted the message that is on its way, or not answered the
  // commit; kNever when nothing is outstanding.
  virtual base::Instant waiting_since() const = 0;
};

// Opens pushes to other workers. Thread-safe.
class KvTransport {
 public:
  virtual ~KvTransport() = default;
  // Begins a push to the worker at `address`. It never fails at once: that a peer cannot be reached
  // shows in OnPushDone. `observer` is kept until then.
  virtual std::shared_ptr<KvPush> Open(const std::string& address, const PushHello& hello,
                                       std::shared_ptr<KvPushObserver> observer) = 0;
};

// --- Receiver. ---

// By which the receiver answers a push. Thread-safe. The first answer counts; before the commit it
// can only be a refusal.
class KvPushReply {
 public:
  virtual ~KvPushReply() = default;
  // The number of blocks that were received, or the refusal.
  virtual void Answer(absl::StatusOr<int32_t> blocks) = 0;
};

// The receiving end of one push. The transport calls it in the order of the push. The stream of a
// push and the thread of a transport that writes blocks itself may call at the same time.
class KvInbox {
 public:
  virtual ~KvInbox() = default;
  // Checks the piece and copies it; an error becomes the push's answer. The next piece is read only
  // after this returned, so that the sender feels a slow receiver.
  virtual absl::Status Write(const KvPiece& piece) = 0;
  // Tells a transport that writes blocks itself where these bytes go, in their order, perhaps to
  // several ranks. They may be written until EndWrite, which follows exactly once, perhaps after
  // Closed. Offset 0 begins a block again.
  virtual absl::StatusOr<ByteParts> BeginWrite(int32_t ordinal, int64_t offset, int64_t size) = 0;
  // Ends a BeginWrite. If `written` is not OK, the bytes may be wrong and it becomes the push's
  // answer.
  virtual void EndWrite(int32_t ordinal, int64_t size, const absl::Status& written) = 0;
  virtual void Progress(int32_t computed_tokens) = 0;
  // The last call but Closed. The reply is answered now or later.
  virtual void Commit(PushCommitment commitment) = 0;
  // The last call, made exactly once: the stream is over, answered or not.
  virtual void Closed() = 0;
};

// Where a receiving transport finds the inbox of a push.
class KvInboxes {
 public:
  virtual ~KvInboxes() = default;
  // The inbox that `hello.ticket` opens, or a refusal, which becomes the push's answer.
  virtual absl::StatusOr<std::shared_ptr<KvInbox>> Open(const PushHello& hello,
                                                        std::shared_ptr<KvPushReply> reply) = 0;
};

}  // namespace baton
