#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "baton/worker/v1/kv_transfer.pb.h"
#include "common/transport/kv_transport.h"
#include "grpcpp/support/byte_buffer.h"

// PushRequest of kv_transfer.proto as raw messages, so that KV bytes are copied neither into nor
// out of protobuf's strings. On the wire it is the message that every protobuf peer reads and
// writes.
namespace baton {

// How many messages refer to source memory. gRPC may hold the last ones beyond the end of their
// call, while their connection is being written.
class SourceReads final {
 public:
  bool none() const { return out_.load(std::memory_order_acquire) == 0; }

 private:
  friend grpc::ByteBuffer EncodePiece(const KvPiece& piece, SourceReads* reads);
  static void Release(void* reads);

  std::atomic<int64_t> out_{0};
};

// The message refers to the piece's bytes: they stay as they are, and `reads` stays, until there
// are none. A copy of a piece is kept by the message itself.
grpc::ByteBuffer EncodePiece(const KvPiece& piece, SourceReads* reads);
grpc::ByteBuffer EncodeMessage(const worker::v1::PushRequest& request);

// A piece whose bytes lie in `message`. Empty for everything that is not a piece of at most
// kMaxPieceBytes, well formed and without unknown fields: ParseMessage tells what that is.
std::optional<KvPiece> DecodePiece(grpc::ByteBuffer* message);
// False when it is no PushRequest.
bool ParseMessage(grpc::ByteBuffer* message, worker::v1::PushRequest* request);

}  // namespace baton
