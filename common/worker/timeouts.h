#pragma once

#include <chrono>
#include <cstddef>

#include "common/base/clock.h"

namespace baton {

// The workers' own deadlines and bounds. Part of the protocol, so not on the command line; tests
// shorten them.
struct WorkerTimeouts {
  base::Duration piece = std::chrono::seconds(10);    // one piece unaccepted fails the push
  base::Duration progress = std::chrono::seconds(5);  // sign of life of a push, queued or computing
  base::Duration reservation_silence = std::chrono::seconds(30);  // then EXPIRED
  base::Duration default_reserve = std::chrono::seconds(5);       // when the router names none
  base::Duration status_min = std::chrono::milliseconds(50);      // between two Status messages
  base::Duration status_max = std::chrono::milliseconds(500);
  base::Duration engine_stall = std::chrono::seconds(30);  // work but no finished op: exit
  size_t stream_buffer_bytes = 4 << 20;  // unsent responses of a stream before it is ended
};

}  // namespace baton
