#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/v1/inference.grpc.pb.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rpc/channel.h"
#include "tools/bench/load/stream_client.h"

namespace baton::bench {

struct BatonClientOptions {
  std::string address;  // HOST:PORT of a router
  ChannelOptions channel;
  // TCP connections; streams take turns on them.
  int32_t connections = 4;
  std::string model;             // empty = the only one
  float temperature = 0;         // 0 = greedy
  std::optional<uint64_t> seed;  // of a request: seed + its index; absent = the server draws
  // Runs with different salts find nothing of each other in prefix caches; within a run, what the
  // plan shares is shared.
  std::string cache_salt;
  std::string as_tenant;  // that requests name; "" = none
  std::string tag;        // GenerationSpec.tag of all requests; "" = none
  EosMode eos = EosMode::kHonor;
  base::Duration timeout = std::chrono::seconds(600);        // of one request
  base::Duration connect_timeout = std::chrono::seconds(5);  // of Connect
};

// Sends requests to a Baton router: baton.v1 InferenceService.Generate over gRPC's callback API.
class BatonClient final : public StreamClient {
 public:
  // Opens all connections, so that no request pays for one. UNAVAILABLE names the address and the
  // reason.
  static absl::StatusOr<std::unique_ptr<BatonClient>> Connect(const BatonClientOptions& options);
  ~BatonClient() override;

  void Start(const PlannedRequest& request, std::shared_ptr<Observer> observer) override;
  void CancelAll() override;

 private:
  class Stream;
  using Stub = baton::v1::InferenceService::Stub;

  BatonClient(BatonClientOptions options, std::vector<std::unique_ptr<Stub>> stubs);
  void Ended(Stream* stream);

  const BatonClientOptions options_;
  const std::vector<std::unique_ptr<Stub>> stubs_;  // one per connection
  std::atomic<size_t> next_stub_ = 0;

  base::Mutex mutex_;
  base::CondVar none_left_;
  // Shared with CancelAll, which must not hold the lock while it cancels.
  std::vector<std::shared_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::bench
