#include "router/openai/openai_front.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/base/ticket.h"
#include "common/sample/request_limits.h"
#include "nlohmann/json.hpp"
#include "router/edge/validation.h"
#include "router/openai/http_caller.h"
#include "router/openai/openai_error.h"
#include "router/openai/openai_sink.h"

namespace baton {
namespace {

constexpr std::string_view kModelsPath = "/v1/models";
constexpr std::string_view kRequestIdHeader = "x-request-id";

HttpReply JsonReply(std::string body) {
  return {
      .status = 200, .headers = {{"content-type", "application/json"}}, .body = std::move(body)};
}

// A name in a path: %XX stands for a byte.
std::string Unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() &&
                        absl::ascii_isxdigit(text[i + 1]) && absl::ascii_isxdigit(text[i + 2]);
    if (escape) {
      plain += absl::HexStringToBytes(std::string(text.substr(i + 1, 2)));
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// A page of another site can send any body without asking first, but none that says it is JSON.
bool IsJson(const HttpRequest& head) {
  const std::string* type = head.Find("content-type");
  return type != nullptr && absl::StartsWithIgnoreCase(*type, "application/json");
}

std::string NewRequestId() { return absl::StrFormat("req-%016x", RandomBits()); }

// The id that the header gives, else a new one. INVALID_TEXT for one that cannot stand in logs.
absl::StatusOr<std::string> RequestIdOf(const HttpRequest& head) {
  const std::string* given = head.Find(kRequestIdHeader);
  if (given == nullptr || given->empty()) return NewRequestId();
  BATON_RETURN_IF_ERROR(CheckLimit(RequestLimit::kRequestId, std::ssize(*given)));
  if (std::ranges::all_of(*given, [](char c) { return c > ' ' && c <= '~'; })) return *given;
  return InvalidArgument(
      Reason::kInvalidText, kRequestIdHeader,
      "x-request-id has other characters than visible ASCII; send such, or none");
}

// Takes what the body says for `sink`, which has the form of the answer from it.
IncomingRequest ReadBody(OpenAiApi api, const std::string& body, const std::string& request_id,
                         OpenAiSink* sink) {
  IncomingRequest incoming;
  absl::StatusOr<OpenAiRequest> request = ReadOpenAiRequest(api, body);
  incoming.parsed = request.status();
  if (!request.ok()) return incoming;
  sink->SetShape(request->shape, request->ignored);
  incoming.spec.Swap(&request->spec);
  if (incoming.spec.request_id().empty()) {
    incoming.spec.set_request_id(request_id);
  } else {
    sink->SetRequestId(incoming.spec.request_id());
  }
  incoming.input = std::move(request->input);
  incoming.special_tokens = request->special_tokens;
  incoming.usual_max_tokens = request->usual_max_tokens;
  return incoming;
}

}  // namespace

OpenAiFront::OpenAiFront(FlowContext* context, const CallerRules& callers, RequestIntake* intake,
                         std::function<absl::Status()> ready)
    : context_(context),
      callers_(callers),
      intake_(intake),
      ready_(std::move(ready)),
      started_(static_cast<int64_t>(context->clock->UnixNow())) {}

std::optional<OpenAiFront::Page> OpenAiFront::PageOf(const HttpRequest& head) {
  if (head.path == "/v1/completions") return Page::kCompletions;
  if (head.path == "/v1/chat/completions") return Page::kChat;
  if (head.path == kModelsPath) return Page::kModels;
  if (head.path == "/health") return Page::kHealth;
  const bool model = head.path.starts_with(kModelsPath) &&
                     head.path.size() > kModelsPath.size() + 1 &&
                     head.path[kModelsPath.size()] == '/';
  if (model) return Page::kModel;
  return std::nullopt;
}

std::optional<HttpReply> OpenAiFront::Admit(const HttpRequest& head,
                                            std::optional<size_t> body_bytes) const {
  const std::optional<Page> page = PageOf(head);
  if (!page) {
    return OpenAiErrorReply(404,
                            "there is nothing at this path; expected /v1/completions, "
                            "/v1/chat/completions, /v1/models or /health");
  }
  const std::string_view method = IsGeneration(*page) ? "POST" : "GET";
  // The server leaves out the body of an answer to HEAD.
  if (head.method != method && (head.method != "HEAD" || IsGeneration(*page))) {
    HttpReply reply = OpenAiErrorReply(
        405, absl::StrCat("this path does not take the method; expected ", std::string(method)));
    reply.headers.emplace_back("allow", IsGeneration(*page) ? "POST" : "GET, HEAD");
    return reply;
  }
  // Bodies count against what all clients may send together, so nobody sends one for nothing: this
  // path needs no key.
  if (!IsGeneration(*page) && body_bytes != size_t{0}) {
    return OpenAiErrorReply(413, "this path takes no body; send the request without one");
  }
  if (*page == Page::kHealth) return std::nullopt;
  const auto caller = CallerOf(head, callers_);
  if (!caller.ok()) return OpenAiErrorReply(caller.status(), OpenAiApi::kCompletions);
  if (!IsGeneration(*page)) return std::nullopt;
  if (!IsJson(head)) {
    return OpenAiErrorReply(415,
                            "the body is not said to be JSON; send the header "
                            "Content-Type: application/json");
  }
  // The share is taken when the body is there; this only spares its way.
  const auto room = context_->budget->Take(caller->client, body_bytes.value_or(0));
  if (!room.ok()) return OpenAiErrorReply(room.status(), OpenAiApi::kCompletions);
  return std::nullopt;
}

void OpenAiFront::Handle(std::shared_ptr<HttpExchange> exchange) {
  const std::optional<Page> page = PageOf(exchange->request());
  if (page && IsGeneration(*page)) {
    return Generate(*page == Page::kChat ? OpenAiApi::kChat : OpenAiApi::kCompletions,
                    std::move(exchange));
  }
  if (page) exchange->Reply(Answer(*page, exchange->request()));
}

HttpReply OpenAiFront::Answer(Page page, const HttpRequest& request) const {
  if (page == Page::kHealth) return Health();
  if (page == Page::kModels) {
    return JsonReply(absl::StrCat(R"({"object":"list","data":[)", ModelJson(), "]}"));
  }
  const std::string name = Unescaped(std::string_view(request.path).substr(kModelsPath.size() + 1));
  const absl::Status known = CheckModelName(name, context_->model);
  if (!known.ok()) return OpenAiErrorReply(known, OpenAiApi::kCompletions);
  return JsonReply(ModelJson());
}

HttpReply OpenAiFront::Health() const {
  const absl::Status ready = ready_();
  if (ready.ok()) return JsonReply("{}");
  return OpenAiErrorReply(503, {ready.message().data(), ready.message().size()});
}

std::string OpenAiFront::ModelJson() const {
  const nlohmann::ordered_json model = {{"id", context_->model.name},
                                        {"object", "model"},
                                        {"created", started_},
                                        {"owned_by", "baton"},
                                        {"max_model_len", context_->Limits().context}};
  return model.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void OpenAiFront::Generate(OpenAiApi api, std::shared_ptr<HttpExchange> exchange) {
  const HttpRequest& head = exchange->request();
  absl::StatusOr<std::string> id = RequestIdOf(head);
  absl::StatusOr<Caller> caller = CallerOf(head, callers_);
  const std::string request_id = id.ok() ? *id : NewRequestId();
  std::optional<TraceContext> trace;
  if (context_->tracer != nullptr) {
    trace = ContextOfHeaders(head.FindAll(kTraceparentHeader), head.FindAll(kTracestateHeader));
  }
  const auto body = std::make_shared<const std::string>(exchange->TakeBody());
  const auto sink = OpenAiSink::Create(
      std::move(exchange), api, request_id,
      {.clock = context_->clock,
       .budget = context_->budget,
       .client = caller.ok() ? caller->client : "",
       .tokenizer = context_->model.tokenizer.get(),
       .buffer_bytes = static_cast<size_t>(context_->options.client_buffer),
       .prediction_dropped = [probe = context_->probe] { probe->PredictionsDropped(1); }});
  const base::Instant now = context_->clock->Now();
  intake_->Receive({.transport = Transport::kHttp,
                    .at = now,
                    .deadline = now + context_->options.deadlines.request,
                    .caller = std::move(caller),
                    .sink = sink,
                    .bytes = body->size(),
                    .trace = std::move(trace),
                    .read = [api, body, request_id, given = id.status(), sink] {
                      if (!given.ok()) return IncomingRequest{.parsed = given};
                      return ReadBody(api, *body, request_id, sink.get());
                    }});
}

}  // namespace baton
