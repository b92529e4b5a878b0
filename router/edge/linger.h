#pragma once

#include <memory>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/timer_queue.h"
#include "grpcpp/server_context.h"

namespace baton {

// How long a client may take over the last that it gets.
struct LingerOptions {
  base::Duration time{};
  const base::Clock* clock = nullptr;
  base::TimerQueue* timers = nullptr;
};

// Breaks a call whose client does not take the last of its answer: gRPC holds it for as long as the
// client keeps its window shut, and the call with it. One that takes a little now and then has
// twenty times as long in all. Thread-safe.
class Linger final {
 public:
  // `context` lives until End.
  Linger(grpc::CallbackServerContext* context, const LingerOptions& options);

  // The answer is ready, so that the client's time begins.
  void Begin();
  // The client took some of it and not the last, for which it has as much time from now on.
  void Took();
  // gRPC is done with the call.
  void End();

 private:
  struct Call {
    base::Mutex mutex;
    grpc::CallbackServerContext* context ABSL_GUARDED_BY(mutex) = nullptr;  // null once it ended
    base::Instant progress ABSL_GUARDED_BY(mutex);  // when the client's time began
    base::Instant end ABSL_GUARDED_BY(mutex);       // of all of it
  };
  // Looks at the call at `when`, and again for as long as it goes on.
  static void LookAt(base::Instant when, const LingerOptions& options,
                     const std::weak_ptr<Call>& call);

  const LingerOptions options_;
  const std::shared_ptr<Call> call_;
};

}  // namespace baton
