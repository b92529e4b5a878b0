#pragma once

#include <string>
#include <string_view>

namespace baton {

// Who a call counts for where clients take turns. `peer` is how gRPC names the other end of a
// connection, and its address without the port is the client: one process has many ports. Of an
// IPv6 address the client is its first 64 bits, the network, since a host may take any address of
// it; but link-local ones, of which all hosts of a link have the same network, stand whole. Where
// more than the address is known (caller.h), the tenant stands in its place.
std::string ClientKey(std::string_view peer);

}  // namespace baton
