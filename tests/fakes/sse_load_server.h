#pragma once

#include <memory>
#include <string>

#include "common/base/clock.h"

namespace baton::testing {

// An OpenAI-compatible /v1/completions for measuring clients: one thread carries thousands of
// streams, each of which gets one word per `gap`. It takes well-formed requests only; for
// everything else there is FakeOpenAiServer.
class SseLoadServer final {
 public:
  explicit SseLoadServer(base::Duration gap);
  ~SseLoadServer();

  std::string url() const;
  // Serves until `until_closed` reads its end.
  void Run(int until_closed);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton::testing
