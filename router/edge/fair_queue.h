#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace baton {

// A piece of work that somebody waits for.
struct PoolWork {
  uint64_t id = 0;     // unique among those that wait
  std::string client;  // who takes turns with others; see Caller
  size_t bytes = 0;    // of what is worked on, which is also what the work costs
  std::function<void()> run;
  // Called in place of `run`, with the error of whoever waits for it, when the piece leaves a full
  // queue to another client.
  std::function<void(const absl::Status& full)> displaced = {};
};

// How much may wait, and how many pieces of one client may run at once.
struct FairQueueBounds {
  size_t pieces = 0;
  size_t bytes = 0;
  size_t running = SIZE_MAX;
};

// Work that waits, in turns between clients and in order within each (start-time fair queueing).
// The client that was served the fewest bytes comes next, and one that comes anew begins where the
// queue stands. So whoever has little to do waits for what runs already, however much others have
// waiting. Plain data: no threads and no lock.
class FairQueue final {
 public:
  explicit FairQueue(FairQueueBounds bounds) : bounds_(bounds) {}

  // RESOURCE_EXHAUSTED, QUEUE_FULL with both numbers and RetryInfo, at either bound.
  absl::Status Push(PoolWork work);
  // When a bound is in the way of `work`, takes out the last piece of the client that has the most
  // there of what is bounded, if that client has no less left than the one of `work` will have once
  // there is room for it. So no client can fill the queue against others. To be called until it
  // takes nothing; it takes nothing for a piece that would be refused all the same.
  struct Displaced {
    PoolWork work;
    absl::Status full;  // the error of its end, as that of Push
  };
  std::optional<Displaced> MakeRoomFor(const PoolWork& work);
  // The next piece that may run. It runs until Done.
  std::optional<PoolWork> Pop();
  // A piece that Pop gave out is over. What runs counts until then as served, so that a client with
  // nothing waiting cannot ask anew and be first again.
  void Done(const std::string& client);
  // Takes out the piece of that id; empty when it does not wait.
  std::optional<PoolWork> Remove(uint64_t id);

  size_t size() const { return size_; }
  size_t bytes() const { return bytes_; }

 private:
  struct Client {
    std::list<PoolWork> waiting;
    size_t bytes = 0;  // of what waits
    size_t running = 0;
    uint64_t served = 0;  // bytes, counted from where the client began
    uint64_t since = 0;   // who came first among equals
  };
  using Clients = std::map<std::string, Client>;

  PoolWork Take(Client* client, std::list<PoolWork>::iterator piece);
  void ForgetIdle(Clients::iterator client);

  const FairQueueBounds bounds_;
  Clients clients_;   // with something that waits or runs
  uint64_t now_ = 0;  // `served` of the client that was served last
  uint64_t arrivals_ = 0;
  size_t size_ = 0;
  size_t bytes_ = 0;
};

}  // namespace baton
