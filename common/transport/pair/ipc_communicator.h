#pragma once

#include <memory>

#include "common/transport/pair/communicator.h"
#include "common/transport/pair/pair_memory.h"

namespace baton {

// Pairs of two processes of one host: the receiver maps the sender's staging buffers and copies out
// of them; nobody writes another process's memory. A Unix socket between the two says what lies
// where and when it was taken; a side that closes it takes its buffers back, and a copy that ended
// after that is an error. In clear text, between processes of one user and network namespace.
//
// `ring` holds the staging buffers that sends come from, and outlives what is made. Copies are
// waited for, everything else is not.
std::unique_ptr<Communicators> MakeIpcCommunicators(StagingRing* ring);

}  // namespace baton
