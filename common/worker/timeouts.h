#pragma once

#include <chrono>
#include <cstddef>

#include "common/base/clock.h"

namespace baton {

// The deadlines and bounds of the workers. They are part of the protocol between workers and
// routers and therefore not flags; tests shorten them.
struct WorkerTimeouts {
  base::Duration piece = std::chrono::seconds(10);    // unaccepted for so long, it fails its push
  base::Duration progress = std::chrono::seconds(5);  // between two signs of life of a push
  base::Duration reservation_silence = std::chrono::seconds(30);  // until it expires
  base::Duration default_reserve = std::chrono::seconds(5);       // where the router names none
  base::Duration status_min = std::chrono::milliseconds(50);      // between two Status messages
  base::Duration status_max = std::chrono::milliseconds(500);
  base::Duration engine_stall = std::chrono::seconds(30);  // without progress ends the process
  size_t stream_buffer_bytes = 4 << 20;  // a stream with more unsent responses is ended
};

}  // namespace baton
