#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/http/http_exchange.h"
#include "router/edge/caller.h"
#include "router/openai/openai_request.h"
#include "router/request/flow_context.h"
#include "router/request/request_intake.h"

namespace baton {

// Answers what the HTTP port is asked: /v1/completions, /v1/chat/completions, /v1/models,
// /v1/models/NAME, and /health, which needs no key. Requests for tokens go the way of gRPC's, from
// the intake on. Runs in the server's I/O threads and never waits. Thread-safe.
class OpenAiFront final {
 public:
  // `context` and `intake` outlive this; so does what `ready` looks at.
  OpenAiFront(FlowContext* context, const CallerRules& callers, RequestIntake* intake,
              std::function<absl::Status()> ready);

  // What can be refused by the header alone: unknown paths, other methods, callers without a right
  // to be here, and bodies that are no JSON or for which there is no room.
  std::optional<HttpReply> Admit(const HttpRequest& head, std::optional<size_t> body_bytes) const;
  void Handle(std::shared_ptr<HttpExchange> exchange);

 private:
  enum class Page { kHealth, kModels, kModel, kCompletions, kChat };
  static std::optional<Page> PageOf(const HttpRequest& head);
  static bool IsGeneration(Page page) { return page == Page::kCompletions || page == Page::kChat; }

  HttpReply Answer(Page page, const HttpRequest& request) const;
  HttpReply Health() const;
  std::string ModelJson() const;
  void Generate(OpenAiApi api, std::shared_ptr<HttpExchange> exchange);

  FlowContext* const context_;
  const CallerRules callers_;
  RequestIntake* const intake_;
  const std::function<absl::Status()> ready_;
  const int64_t started_;  // Unix seconds
};

}  // namespace baton
