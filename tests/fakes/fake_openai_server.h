#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace baton::testing {

// How a stream of the fake server ends.
enum class OpenAiEnd {
  kDone,        // finish_reason, usage, [DONE]
  kNoDone,      // finish_reason and usage, then a proper end of the body
  kCut,         // the connection closes in the middle of an event
  kNothing,     // a proper end of the body after the last token
  kMalformed,   // an event that is no JSON
  kErrorEvent,  // an event with an error
  kHang,        // nothing more happens
};

struct FakeOpenAiOptions {
  base::Duration ttft{};
  base::Duration gap{};
  // A knee: a request that comes while so many others are under way gets `slow_ttft`.
  int slow_from = std::numeric_limits<int>::max();
  base::Duration slow_ttft{};
  int stop_after = -1;  // events, then `end`; -1 = max_tokens
  OpenAiEnd end = OpenAiEnd::kDone;
  int tokens_per_event = 1;  // that usage counts
  bool usage = true;
  bool token_ids = false;  // in every choice, as vLLM's return_token_ids
  std::string line_end = "\n";
  // Instead of a stream.
  int http_status = 200;
  std::string body;
  std::string api_key;  // demanded when not empty
  int threads = 32;     // connections at once
};

// POST /v1/completions as server-sent events and GET /v1/models, on a loopback port. Thread-safe.
class FakeOpenAiServer final {
 public:
  explicit FakeOpenAiServer(FakeOpenAiOptions options);
  ~FakeOpenAiServer();

  std::string url() const;
  // Bodies of the completion requests so far.
  std::vector<std::string> bodies() const;
  // Every connection breaks and nobody answers here any more.
  void Kill();
  // False when it did not come to that many requests within a minute.
  bool WaitForRequests(size_t count) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton::testing
