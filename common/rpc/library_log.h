#pragma once

namespace baton {

// What gRPC and protobuf have to say goes through our log from now on, in its form and by its
// level: theirs is stderr, in forms of their own. gRPC says little but errors unless GRPC_VERBOSITY
// asks for more. For main, once there is a log; the last call counts.
void LogWhatLibrariesSay();

}  // namespace baton
