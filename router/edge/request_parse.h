#pragma once

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"

namespace baton {

// Reads a request from the wire. gRPC itself answers UNIMPLEMENTED without a word when a message
// does not parse; this names the field: INVALID_ARGUMENT with INVALID_TEXT for a string that is not
// UTF-8, plain INVALID_ARGUMENT for anything else. A request beyond the table of limits
// (common/sample/request_limits.h) is refused as LIMIT_EXCEEDED from its bytes alone, before any of
// it is copied.
absl::Status ParseRequest(const grpc::ByteBuffer& bytes, google::protobuf::Message* request);

// Writes a response to the wire, which every message of ours can be.
grpc::ByteBuffer SerializeResponse(const google::protobuf::Message& response);

}  // namespace baton
