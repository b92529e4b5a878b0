#pragma once

#include "grpc/compression.h"

// No message is compressed, ours or a peer's. gRPC would unpack a whole message, as large as its
// sender likes, before it holds it against the limit of sizes and before anybody has looked at who
// calls. A call that compresses ends as UNIMPLEMENTED.
namespace baton {

// Of GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET.
constexpr int kUncompressed = 1 << GRPC_COMPRESS_NONE;
// Of GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION. A message that comes close behind its header is
// unpacked before the header is refused.
constexpr int kUnpackNothing = 0;

}  // namespace baton
