#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "baton/worker/v1/kv_transfer.pb.h"
#include "common/transport/kv_transport.h"
#include "grpcpp/support/byte_buffer.h"

// Encodes and decodes PushRequest of kv_transfer.proto by hand, so that KV bytes are copied neither
// into nor out of protobuf's strings. On the wire it is the message that every protobuf peer reads
// and writes.
namespace baton {

// Counts the messages that still refer to the memory of blocks. gRPC may hold the last ones beyond
// the end of their call, while it writes their connection.
class SourceReads final {
 public:
  bool none() const { return out_.load(std::memory_order_acquire) == 0; }

 private:
  friend grpc::ByteBuffer EncodePiece(const KvPiece& piece, SourceReads* reads);
  static void Release(void* reads);

  std::atomic<int64_t> out_{0};
};

// The message refers to the piece's bytes: they must not change, and `reads` must stay, until
// `reads` says none. A piece that is a copy is kept by the message itself.
grpc::ByteBuffer EncodePiece(const KvPiece& piece, SourceReads* reads);
grpc::ByteBuffer EncodeMessage(const worker::v1::PushRequest& request);

// A piece whose bytes lie in `message`. Empty for everything but a well-formed piece of at most
// kMaxPieceBytes without unknown fields: ParseMessage tells what that is.
std::optional<KvPiece> DecodePiece(grpc::ByteBuffer* message);
// False when `message` is no PushRequest.
bool ParseMessage(grpc::ByteBuffer* message, worker::v1::PushRequest* request);

// What a sender says first, but for the trace, which comes with the call. Empty where its ticket is
// none.
std::optional<PushHello> HelloFromProto(const worker::v1::PushOpen& open);
PushCommitment CommitmentFromProto(const worker::v1::PushCommit& commit);

}  // namespace baton
