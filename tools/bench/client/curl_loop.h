#pragma once

#include <curl/curl.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace baton::bench {

// Runs any number of curl transfers on one thread: epoll tells which sockets have something, and
// only those are touched, so the cost is of bytes and not of streams. Connections are kept and used
// again. Thread-safe.
class CurlLoop final {
 public:
  // One request. Called on the loop's thread only.
  class Transfer {
   public:
    virtual ~Transfer() = default;
    // The curl handle, fully set up. Its callbacks run on the loop's thread between OnAdded and
    // OnDone.
    virtual CURL* handle() = 0;
    virtual void OnAdded(base::Instant now) = 0;
    // The last call. The code is CURLE_ABORTED_BY_CALLBACK when AbortAll ended the transfer.
    virtual void OnDone(base::Instant now, CURLcode code) = 0;

   private:
    friend class CurlLoop;
    size_t place_ = 0;  // in active_
  };

  static absl::StatusOr<std::unique_ptr<CurlLoop>> Create();
  // Aborts what is under way.
  ~CurlLoop();

  // `transfer` must live until its OnDone.
  void Add(Transfer* transfer);
  // Ends everything added so far; returns before it has ended.
  void AbortAll();

 private:
  struct Orders {
    std::vector<Transfer*> add;
    size_t abort = 0;  // of `add`, so many are aborted instead
    bool abort_active = false;
    bool stop = false;
  };

  CurlLoop(CURLM* multi, int epoll_fd, int wake_fd);
  static int OnSocket(CURL* easy, curl_socket_t socket, int what, void* self, void* known);
  static int OnTimer(CURLM* multi, long timeout_ms, void* self);

  void Run();
  // Waits for the sockets and curl's timer, and handles what they have to say.
  void Poll();
  void RunTimer();
  // Does what other threads asked for; false when it is time to stop.
  bool Obey();
  void Begin(Transfer* transfer);
  void Reap();
  void End(Transfer* transfer, CURLcode code);
  void Wake();

  CURLM* const multi_;
  const int epoll_fd_;
  const int wake_fd_;
  base::Instant timer_ = base::kNever;
  std::vector<Transfer*> active_;  // of the loop's thread

  base::Mutex mutex_;
  Orders orders_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace baton::bench
