#pragma once

namespace baton {

// gRPC's callback threads end with the last channel or server that used them. A client call's last
// reaction often lets go of the last reference to its channel; that thread would then join itself
// and go on over freed memory. So that any thread may let go of a channel, this keeps one user of
// the threads for the life of the process. Thread-safe; the first call pays.
void KeepCallbackThreads();

}  // namespace baton
