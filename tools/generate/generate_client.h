#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/inference.grpc.pb.h"
#include "common/base/clock.h"
#include "tools/generate/generate_flags.h"
#include "tools/generate/prompt_request.h"

namespace baton {

// What came of one request.
struct Outcome {
  absl::Status status;     // when it is an error, the rest is what came before it
  std::string request_id;  // "" when it failed before the server named it
  std::string text;
  std::vector<int32_t> token_ids;
  std::vector<baton::v1::TokenLogprobs> logprobs;
  std::vector<baton::v1::EosStep> eos_steps;
  baton::v1::Final final;
  double ttft_ms = 0;  // as this client saw it
  double total_ms = 0;
};

// Sends requests over one connection. Thread-safe.
class GenerateClient final {
 public:
  using OnDelta = std::function<void(const baton::v1::Delta&)>;

  static absl::StatusOr<std::unique_ptr<GenerateClient>> Connect(const ClientFlags& flags);

  // Blocks until the request ended or its time is over; `on_delta` may be empty.
  Outcome Run(const PromptRequest& request, const OnDelta& on_delta);

 private:
  GenerateClient(std::unique_ptr<baton::v1::InferenceService::Stub> stub, const ClientFlags& flags)
      : stub_(std::move(stub)), timeout_(flags.timeout), as_tenant_(flags.as_tenant) {}

  std::unique_ptr<baton::v1::InferenceService::Stub> stub_;
  const base::Duration timeout_;
  const std::string as_tenant_;
};

}  // namespace baton
