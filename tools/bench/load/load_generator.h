#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "tools/bench/load/request_record.h"
#include "tools/bench/load/stream_client.h"
#include "tools/bench/plan/request_plan.h"

namespace baton::bench {

struct LoadOptions {
  // Requests under way at once: 0 = open loop, each is sent at its time whatever became of the
  // others; else closed loop, `at` is ignored.
  int32_t concurrency = 0;
  // How long to wait for the streams under way after the last sending; then they are cancelled.
  base::Duration drain = std::chrono::minutes(10);
  // Closed loop: no request is sent later than this; zero = until the plan is used up.
  base::Duration duration{};
  // This many requests in a row that end UNAVAILABLE end the run: nobody is there any more. 0 = go
  // on whatever happens.
  int32_t give_up_after = 0;
};

// Live figures, for a terminal.
struct LoadProgress {
  double elapsed_s = 0;
  int64_t planned = 0;
  int64_t sent = 0;
  int64_t done = 0;  // ended without error
  int64_t failed = 0;
  int64_t output_tokens = 0;
  double last_ttft_ms = 0;  // of the latest first token
};

// Lag of the generator itself: from the moment a request should have been sent to the moment it
// was. In a closed loop: from the end of a request to the sending of the next.
struct LoadResult {
  std::vector<RequestRecord> records;  // in the order of sending; requests never sent are absent
  std::vector<double> lag_ms;          // one per sent request
  base::Instant started;
  double unix_started = 0;
  double duration_s = 0;     // start to last end
  bool interrupted = false;  // by `stop`
  absl::Status gave_up;      // not OK: why the run ended early, see give_up_after
};

// Sends the plan's requests through `client` and returns when all have ended. `stop` may be set by
// another thread: nothing more is sent, what is under way is cancelled and what was measured is
// returned. `progress`, which may be empty, is called about every 250 ms.
LoadResult RunLoad(const RequestPlan& plan, const LoadOptions& options, StreamClient* client,
                   const std::atomic<bool>& stop,
                   const std::function<void(const LoadProgress&)>& progress);

}  // namespace baton::bench
