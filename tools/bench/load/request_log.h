#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "tools/bench/load/load_generator.h"
#include "tools/bench/load/stream_client.h"

namespace baton::bench {

// What the threads of one run share. Its observers hold it too, so that a stream that outlives its
// run still has something to report to.
struct LoadState {
  explicit LoadState(bool closed) : closed_loop(closed) {}

  const bool closed_loop;
  base::Instant started;

  std::atomic<int64_t> sent = 0;
  std::atomic<int64_t> done = 0;
  std::atomic<int64_t> failed = 0;
  std::atomic<int64_t> output_tokens = 0;
  std::atomic<double> last_ttft_ms = 0;

  base::Mutex mutex;
  base::CondVar place_or_halt;  // for the pacing thread
  base::CondVar quiet;          // for the supervisor: sending_over or nothing under way
  bool halt ABSL_GUARDED_BY(mutex) = false;          // send nothing more
  bool sending_over ABSL_GUARDED_BY(mutex) = false;  // the pacing thread has returned
  int64_t under_way ABSL_GUARDED_BY(mutex) = 0;
  // Closed loop: when each place became free, oldest first.
  std::vector<base::Instant> free_places ABSL_GUARDED_BY(mutex);
  int32_t unavailable_in_row ABSL_GUARDED_BY(mutex) = 0;
  absl::Status last_unavailable ABSL_GUARDED_BY(mutex);
};

// One request's record while it is written. The pacing thread fills it before Start, the client's
// callbacks (serial) after that, and the run reads it once it has ended.
class RequestLog final : public StreamClient::Observer {
 public:
  RequestLog(std::shared_ptr<LoadState> state, const PlannedRequest& request);

  // `due` is when it should be sent, `scheduled` what latencies are measured from.
  void WillBeSent(base::Instant due, base::Instant scheduled, base::Instant now);

  void OnSent(base::Instant now) override;
  void OnChunk(base::Instant now, int32_t tokens) override;
  void OnEnd(base::Instant now, RequestRecord result) override;

  // The record of a stream that has ended, or what stands for one that never will, and its lag.
  void MoveTo(LoadResult* result);

 private:
  double Since(base::Instant when) const { return base::Seconds(when - state_->started); }
  void TakeResult(base::Instant now, RequestRecord result);
  void Identify(base::Instant scheduled, base::Instant sent, RequestRecord* record) const;

  const std::shared_ptr<LoadState> state_;
  const int64_t index_;
  const int32_t prompt_tokens_;
  const int32_t max_tokens_;
  RequestRecord record_;
  base::Instant due_, scheduled_, sent_;
  bool ended_ = false;  // guarded by state_->mutex
};

}  // namespace baton::bench
