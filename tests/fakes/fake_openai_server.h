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
  kDoneAlone,   // [DONE] after the last token, and no finish_reason or usage
  kMalformed,   // an event that is no JSON
  kErrorEvent,  // an event with an error
  kHang,        // nothing more happens
};

struct FakeOpenAiOptions {
  base::Duration ttft{};
  base::Duration gap{};
  // A request that comes while so many others are under way gets `slow_ttft`, so that a search for
  // the highest load has a knee to find.
  int slow_from = std::numeric_limits<int>::max();
  base::Duration slow_ttft{};
  int stop_after = -1;  // events, then `end`; -1 = max_tokens
  OpenAiEnd end = OpenAiEnd::kDone;
  int tokens_per_event = 1;    // that usage counts
  std::string text = "word";   // of an event; "": of tokens that have none
  bool token_in_last = false;  // that usage counts, too, in the event with the finish_reason
  bool usage = true;
  bool token_ids = false;  // in every choice, as vLLM's return_token_ids
  std::string line_end = "\n";
  // An answer other than 200 is this body in place of a stream.
  int http_status = 200;
  std::string body;
  std::string api_key;  // demanded when not empty
  int threads = 32;     // connections at once
};

// An OpenAI-compatible server on a loopback port, which answers POST /v1/completions with
// server-sent events, and GET /v1/models. Thread-safe.
class FakeOpenAiServer final {
 public:
  explicit FakeOpenAiServer(FakeOpenAiOptions options);
  ~FakeOpenAiServer();

  std::string url() const;
  // The bodies of the completion requests so far.
  std::vector<std::string> bodies() const;
  // Every connection breaks and nobody answers here any more.
  void Kill();
  // Waits until so many requests have come; false when they have not within a minute.
  bool WaitForRequests(size_t count) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton::testing
