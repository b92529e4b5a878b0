#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "baton/v1/inference.pb.h"
#include "common/base/clock.h"
#include "grpcpp/support/status.h"

namespace baton::testing {

// How a stream of the timed server ends.
enum class TimedEnd {
  kFinal,    // as it should
  kStatus,   // in options.status, without Final
  kNoFinal,  // OK without Final
  kHang,     // nothing more happens
};

struct TimedServerOptions {
  base::Duration ttft{};  // from the request to its first token
  base::Duration gap{};   // between messages, kept on average
  int32_t tokens_per_message = 1;
  // From `freeze_after` past the first request on, for the time of `freeze_for`, nothing is sent or
  // begun.
  base::Duration freeze_after{};
  base::Duration freeze_for{};
  int32_t stop_after = -1;  // tokens, then `end`; -1 = max_tokens
  TimedEnd end = TimedEnd::kFinal;
  grpc::Status status;
  std::optional<int32_t> natural_end_step;  // told where EOS is ignored
};

// The public services of a router whose times are known: InferenceService.Generate and ModelService
// on a loopback port. One thread keeps the times of any number of streams. Thread-safe.
class TimedInferenceServer final {
 public:
  explicit TimedInferenceServer(TimedServerOptions options);
  ~TimedInferenceServer();

  const std::string& address() const { return address_; }
  // Every stream breaks and nobody answers here any more.
  void Kill();

  std::vector<baton::v1::GenerateRequest> requests() const;
  // The tenants that those requests named; "" for none.
  std::vector<std::string> tenants() const;
  int open_streams() const;
  int most_open_streams() const;
  // Waits until so many streams are open; false when they are not within a minute.
  bool WaitForOpenStreams(int count) const;
  // When it was frozen; kNever before the first request.
  base::Instant frozen_from() const;
  base::Instant frozen_until() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  std::string address_;
};

}  // namespace baton::testing
