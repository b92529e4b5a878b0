#pragma once

#include <functional>
#include <memory>

#include "common/base/ticket.h"
#include "common/transport/kv_transport.h"
#include "common/transport/pair/pair_memory.h"
#include "common/transport/pair/pair_protocol.h"

namespace baton {

// Puts a received parcel into its blocks: checks its header against the plan, asks the inbox of its
// push for the places, copies the parts there, and compares the checksums of what stands there
// then.
ParcelDelivered Deliver(const DeliverParcel& command, PairMemory* memory, bool checksum,
                        const std::function<std::shared_ptr<KvInbox>(const Ticket&)>& find_inbox);

}  // namespace baton
