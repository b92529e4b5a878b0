#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "common/base/bounded_queue.h"
#include "common/base/mutex.h"
#include "common/rpc/channel.h"

namespace baton {

// Makes channels on a thread of its own. To make one reads files of certificates and takes as long
// as their disk does, so whoever may not wait, or holds a lock, asks here. Thread-safe.
class ChannelOpener final {
 public:
  // Called exactly once, without any lock: by the caller of Open if the channel is kept, else by
  // the opener's thread.
  using Opened = std::function<void(absl::StatusOr<std::shared_ptr<grpc::Channel>>)>;

  // Keeps a channel per address, and lets go of all of them when there are `max_kept`; who got one
  // goes on with it. With 0 every call makes one.
  ChannelOpener(ChannelOptions options, size_t max_kept);
  // What is not begun is told CANCELLED. Waits for the channel that is being made.
  ~ChannelOpener();
  ChannelOpener(const ChannelOpener&) = delete;
  ChannelOpener& operator=(const ChannelOpener&) = delete;

  // Does not wait. Bounded by its callers: each has one channel opened at a time.
  void Open(const std::string& address, Opened opened);

 private:
  struct Order {
    std::string address;
    Opened opened;
  };
  void Run();
  std::shared_ptr<grpc::Channel> Kept(const std::string& address);
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Make(const std::string& address);

  const ChannelOptions options_;
  const size_t max_kept_;
  base::BoundedQueue<Order> orders_;
  base::Mutex mutex_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> kept_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace baton
