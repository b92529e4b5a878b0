#pragma once

#include <optional>

#include "baton/worker/v1/kv_transfer.pb.h"
#include "common/transport/pair/pair_protocol.h"

// The messages of a pair's control stream as protobuf.
namespace baton {

worker::v1::PairRequest PairMessageToProto(const ToReceiver& message);
worker::v1::PairResponse PairMessageToProto(const ToSender& message);
// Empty for a message that says nothing, or a ticket that cannot be.
std::optional<ToReceiver> PairMessageFromProto(const worker::v1::PairRequest& proto);
std::optional<ToSender> PairMessageFromProto(const worker::v1::PairResponse& proto);

}  // namespace baton
