#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/inference.grpc.pb.h"
#include "common/base/clock.h"
#include "tools/generate/generate_flags.h"
#include "tools/generate/prompt_request.h"

namespace baton {

// One answer of a request.
struct OutcomeAnswer {
  std::string text;
  std::vector<int32_t> token_ids;
  std::vector<baton::v1::TokenLogprobs> logprobs;
  std::vector<baton::v1::EosStep> eos_steps;
  std::vector<baton::v1::EndPrediction> predictions;
  baton::v1::Final final;
};

// What came of one request. Its own answer is the first.
struct Outcome : OutcomeAnswer {
  absl::Status status;     // when it is an error, the rest is what came before it
  bool started = false;    // the server took the request
  std::string request_id;  // "" when it failed before the server named it
  // How tokens are drawn; absent unless a preset was asked for.
  std::optional<baton::v1::SamplingParams> sampling;
  bool predict = false;                // it was asked for predictions
  std::vector<OutcomeAnswer> further;  // the answers of index 1 and up, in their order
  double ttft_ms = 0;                  // as this client saw it
  double total_ms = 0;

  // Whether several answers were drawn or searched for, though perhaps only the best of them given.
  bool several() const { return final.has_seed() || final.has_score(); }
  // All that were given, in the order of their index.
  std::vector<const OutcomeAnswer*> answers() const;
};

// When a request that has no token yet says what it waits for, and where.
struct WaitRules {
  base::Duration after = std::chrono::seconds(1);
  std::function<void(const std::string& line)> tell;  // empty: to stderr
};

// Sends requests over one connection. Thread-safe.
class GenerateClient final {
 public:
  // False: no more of the answer is wanted, and the request is cancelled.
  using OnDelta = std::function<bool(const baton::v1::Delta&)>;

  static absl::StatusOr<std::unique_ptr<GenerateClient>> Connect(const ClientFlags& flags,
                                                                 WaitRules wait = {});

  // Blocks until the request ended or its time is over; `on_delta` may be empty.
  Outcome Run(const PromptRequest& request, const OnDelta& on_delta);

 private:
  GenerateClient(std::unique_ptr<baton::v1::InferenceService::Stub> stub, ClientFlags flags,
                 WaitRules wait)
      : stub_(std::move(stub)), flags_(std::move(flags)), wait_(std::move(wait)) {}

  // Sends it; `on_first` is called when the first token comes.
  void Exchange(const PromptRequest& request, const OnDelta& on_delta,
                const std::function<void()>& on_first, Outcome* outcome);
  // What a request without a token waits for, as far as the server says.
  std::string WhatIsWaitedFor() const;

  std::unique_ptr<baton::v1::InferenceService::Stub> stub_;
  const ClientFlags flags_;
  const WaitRules wait_;
  // Of requests that wait at the same time one says so, until one of them gets on.
  std::atomic<bool> told_{false};
};

}  // namespace baton
