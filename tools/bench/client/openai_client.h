#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "tools/bench/client/curl_loop.h"
#include "tools/bench/client/openai_target.h"
#include "tools/bench/load/stream_client.h"

namespace baton::bench {

// Sends requests to an OpenAI-compatible server: POST /v1/completions with "stream": true, over
// HTTP/1.1 with kept connections.
//
// This is how output is counted: every event with tokens (CompletionChunk::tokens) is one arrival.
// The usage at the end is the truth for output_tokens; where it counts more than came before the
// event with the finish_reason, that one brought a token, too, though it has no text. Where a
// server sends no usage, the arrivals are summed and counted_by_server is false.
class OpenAiClient final : public StreamClient {
 public:
  // Asks the server for its models first, see OpenAiTarget::Probe.
  static absl::StatusOr<std::unique_ptr<OpenAiClient>> Connect(const OpenAiClientOptions& options);
  ~OpenAiClient() override;

  void Start(const PlannedRequest& request, std::shared_ptr<Observer> observer) override;
  void CancelAll() override { loop_->AbortAll(); }

 private:
  class Exchange;

  OpenAiClient(std::unique_ptr<OpenAiTarget> target, std::unique_ptr<CurlLoop> loop);

  const std::unique_ptr<OpenAiTarget> target_;
  base::Mutex mutex_;
  // There are as many as were ever under way at once; each is used again.
  std::vector<std::unique_ptr<Exchange>> exchanges_ ABSL_GUARDED_BY(mutex_);
  std::vector<Exchange*> idle_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<CurlLoop> loop_;
};

}  // namespace baton::bench
