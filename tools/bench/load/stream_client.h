#pragma once

#include <memory>

#include "tools/bench/load/request_record.h"
#include "tools/bench/plan/request_plan.h"

namespace baton::bench {

// One way to stream requests to a server. Thread-safe; no thread per stream.
class StreamClient {
 public:
  // Hears of one stream. Calls of one stream are serial and on the client's threads, which they
  // must not block.
  class Observer {
   public:
    virtual ~Observer() = default;
    // The request was handed to the network at `now`; before any other call. A client that sends
    // inside Start need not say it.
    virtual void OnSent(base::Instant now) { (void)now; }
    // `tokens` > 0 new output tokens arrived at `now`.
    virtual void OnChunk(base::Instant now, int32_t tokens) = 0;
    // The stream is over: `result` holds what the server said (status, counts, finish reason,
    // timings); its times and chunks are empty. The last call; the client lets go of the observer.
    virtual void OnEnd(base::Instant now, RequestRecord result) = 0;
  };

  // Ends what is under way; every observer has heard OnEnd when it returns.
  virtual ~StreamClient() = default;
  // Sends without blocking. `request` must stay valid until OnEnd. OnEnd always comes: after the
  // client's timeout at the latest.
  virtual void Start(const PlannedRequest& request, std::shared_ptr<Observer> observer) = 0;
  // Ends all streams under way; their records are `cancelled`.
  virtual void CancelAll() = 0;
};

}  // namespace baton::bench
