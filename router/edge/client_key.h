#pragma once

#include <string>
#include <string_view>

namespace baton {

// Who a call counts for where clients take turns. `peer` is how gRPC names the other end of a
// connection, and its address without the port is the client: one process has many ports. Any other
// name of a client, such as a tenant's, can stand where this one does.
std::string ClientKey(std::string_view peer);

}  // namespace baton
