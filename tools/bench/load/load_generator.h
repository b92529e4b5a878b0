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
  // Requests under way at once. 0 is an open loop: each is sent at its time, whatever became of the
  // others. More is a closed loop, in which the times of the plan are ignored.
  int32_t concurrency = 0;
  // How long to wait for the streams under way after the last sending; then they are cancelled.
  base::Duration drain = std::chrono::minutes(10);
  // In a closed loop no request is sent later than this; zero means until the plan is used up.
  base::Duration duration{};
  // When so many requests in a row end UNAVAILABLE, nobody is there any more, and the run ends. 0
  // means to go on whatever happens.
  int32_t give_up_after = 0;
};

// The figures of a run under way, for a terminal.
struct LoadProgress {
  double elapsed_s = 0;
  int64_t planned = 0;
  int64_t sent = 0;
  int64_t done = 0;  // ended without error
  int64_t failed = 0;
  int64_t output_tokens = 0;
  double last_ttft_ms = 0;  // of the latest first token
};

// What a run measured. Its lag is that of the generator itself: from the moment a request should
// have been sent to the moment it was; in a closed loop, from the end of a request to the sending
// of the next.
struct LoadResult {
  std::vector<RequestRecord> records;  // in the order of sending; requests never sent are absent
  std::vector<double> lag_ms;          // one per sent request
  base::Instant started;
  double unix_started = 0;
  double duration_s = 0;     // start to last end
  bool interrupted = false;  // by `stop`
  absl::Status gave_up;      // an error says why the run ended early, see give_up_after
};

// Sends the plan's requests through `client` and returns when all have ended. `stop` may be set by
// another thread: nothing more is sent, what is under way is cancelled and what was measured is
// returned. `progress`, which may be empty, is called about every 250 ms.
LoadResult RunLoad(const RequestPlan& plan, const LoadOptions& options, StreamClient* client,
                   const std::atomic<bool>& stop,
                   const std::function<void(const LoadProgress&)>& progress);

}  // namespace baton::bench
