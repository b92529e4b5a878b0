#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/bounded_queue.h"
#include "common/base/clock.h"
#include "tools/batch/http_answer.h"
#include "tools/bench/client/curl_loop.h"
#include "tools/bench/client/openai_target.h"

namespace baton::batch {

// Sends requests over HTTP and gathers their answers, up to `slots` at once. All calls are made by
// one thread.
class BatchSender final {
 public:
  struct Arrival {
    size_t slot = 0;
    HttpAnswer answer;
  };

  // Asks the service for its models first: UNAVAILABLE when nobody answers, UNAUTHENTICATED when
  // the key is refused.
  static absl::StatusOr<std::unique_ptr<BatchSender>> Connect(
      const bench::OpenAiClientOptions& options, size_t slots);
  // Ends what is under way.
  ~BatchSender();

  // `url` is that of a line, "/v1/completions". The slot is free: it has no request under way.
  void Send(size_t slot, const std::string& url, std::string body);
  // The next answer, waited for until `deadline`.
  std::optional<Arrival> Next(base::Instant deadline) { return arrivals_.PopUntil(deadline); }

 private:
  class Exchange;

  BatchSender(std::unique_ptr<bench::OpenAiTarget> target, std::unique_ptr<bench::CurlLoop> loop,
              size_t slots);

  const std::unique_ptr<bench::OpenAiTarget> target_;
  base::BoundedQueue<Arrival> arrivals_;
  std::vector<std::unique_ptr<Exchange>> exchanges_;  // by slot, made when first used
  std::unique_ptr<bench::CurlLoop> loop_;
};

}  // namespace baton::batch
