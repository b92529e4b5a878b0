#include "router/openai/openai_error.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

int HttpStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kCancelled:
      return 499;  // nobody reads it; proxies log it so
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

std::string_view ErrorTypeOf(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 504:
      return "timeout_error";
    default:
      return http_status < 500 ? "invalid_request_error" : "server_error";
  }
}

// The words of OpenAI where it has some that clients look for, else the reason in lower case.
Json ErrorCodeOf(Reason reason) {
  if (reason == Reason::kNone) return nullptr;
  if (reason == Reason::kTooLong) return "context_length_exceeded";
  return absl::AsciiStrToLower({ReasonName(reason).data(), ReasonName(reason).size()});
}

std::string_view InputName(OpenAiApi api) {
  return api == OpenAiApi::kChat ? "messages" : "prompt";
}

struct Renamed {
  std::string_view ours;
  std::string_view theirs;
};

// Fields of GenerationSpec whose last part is not their name here. Of guides, workers know the last
// part alone.
constexpr Renamed kRenamed[] = {
    {"spec.stop.include_stop_in_output", "include_stop_str_in_output"},
    {"spec.stop.eos_policy", "ignore_eos"},
    {"spec.stop.length_control.target", "baton.length_control.target"},
    {"spec.stop.length_control.strength", "baton.length_control.strength"},
    {"spec.stop.length_control", "baton.length_control"},
    {"spec.eos.predict_every", "baton.predict_every"},
    {"spec.eos.predict", "baton.predict"},
    {"spec.eos.steps", "baton.eos_steps"},
    {"spec.tag", "baton.tag"},
    {"spec.json_object", "response_format.type"},
    {"json_object", "response_format.type"},
};

std::string_view LastPart(std::string_view field) { return field.substr(field.rfind('.') + 1); }

std::string ParamOf(std::string_view field, OpenAiApi api, const OpenAiNames& names) {
  if (field == "text" || field == "token_ids" || field == "input") {
    return std::string(InputName(api));
  }
  if (field == "spec.guided_json" || field == "guided_json") return std::string(names.schema);
  if (field == "spec.stop.max_tokens") return std::string(names.max_tokens);
  if (field == "spec.output.logprobs" && api == OpenAiApi::kChat) return "top_logprobs";
  for (const Renamed& row : kRenamed) {
    if (row.ours == field) return std::string(row.theirs);
  }
  return std::string(field.starts_with("spec.") ? LastPart(field) : field);
}

// Messages name a field of GenerationSpec by its path, or begin with the last part of it.
std::string MessageOf(const absl::Status& status, const std::string& field,
                      const std::string& param) {
  std::string message(status.message().data(), status.message().size());
  const std::string last(LastPart(field));
  if (message.starts_with(last + " ")) message.replace(0, last.size(), param);
  return field.starts_with("spec.") ? absl::StrReplaceAll(message, {{field, param}}) : message;
}

Json ErrorJsonOf(const absl::Status& status, OpenAiApi api, const OpenAiNames& names) {
  const ErrorDetail detail = DetailOf(status);
  const std::string param = ParamOf(detail.field, api, names);
  const int http = HttpStatusOf(status);
  return {{"error",
           {{"message", MessageOf(status, detail.field, param)},
            {"type", ErrorTypeOf(http)},
            {"param", param.empty() ? Json() : Json(param)},
            {"code", ErrorCodeOf(detail.reason)}}}};
}

std::string ErrorText(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Seconds, as HTTP has them, and the milliseconds that OpenAI's clients prefer.
void AddRetryAfter(std::chrono::milliseconds after, HttpHeaders* headers) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(after);
  headers->emplace_back("retry-after", absl::StrCat(std::max<int64_t>(1, seconds.count())));
  headers->emplace_back("retry-after-ms", absl::StrCat(after.count()));
}

// OpenAI's clients repeat whatever has a status from 500 on, unless they are told not to.
bool EndsTheSameAgain(const absl::Status& status) {
  const Reason reason = DetailOf(status).reason;
  return reason == Reason::kLogitsNotFinite || reason == Reason::kRequestKilledWorkers ||
         absl::IsDeadlineExceeded(status);
}

}  // namespace

std::string OpenAiErrorJson(const absl::Status& status, OpenAiApi api, const OpenAiNames& names) {
  return ErrorText(ErrorJsonOf(status, api, names));
}

HttpReply OpenAiErrorReply(const absl::Status& status, OpenAiApi api, const OpenAiNames& names) {
  HttpReply reply{.status = HttpStatusOf(status),
                  .headers = {{"content-type", "application/json"}},
                  .body = OpenAiErrorJson(status, api, names)};
  if (const auto after = DetailOf(status).retry_after) AddRetryAfter(*after, &reply.headers);
  if (EndsTheSameAgain(status)) reply.headers.emplace_back("x-should-retry", "false");
  if (reply.status == 401) reply.headers.emplace_back("www-authenticate", "Bearer");
  return reply;
}

HttpReply OpenAiErrorReply(int http_status, std::string_view message) {
  const Json error = {{"error",
                       {{"message", message},
                        {"type", ErrorTypeOf(http_status)},
                        {"param", nullptr},
                        {"code", http_status == 401 ? Json("invalid_api_key") : Json()}}}};
  return {.status = http_status,
          .headers = {{"content-type", "application/json"}},
          .body = ErrorText(error)};
}

}  // namespace baton
