#include "tools/batch/http_answer.h"

#include "absl/strings/str_cat.h"
#include "common/base/shown_text.h"
#include "nlohmann/json.hpp"

namespace baton::batch {
namespace {

using Json = nlohmann::json;
using Pointer = Json::json_pointer;

Json ParsedBody(const std::string& body) {
  // The parser would end there, and what stands behind it would be written into OUT.
  if (body.find('\0') != std::string::npos) return Json(Json::value_t::discarded);
  return Json::parse(body, nullptr, /*allow_exceptions=*/false);
}

std::string TextAt(const Json& json, const char* path) {
  const Pointer pointer(path);
  if (!json.is_object() || !json.contains(pointer) || !json[pointer].is_string()) return "";
  return json[pointer].get<std::string>();
}

}  // namespace

Verdict VerdictOf(const HttpAnswer& answer) {
  if (answer.too_large) return Verdict::kFinal;
  switch (answer.status) {
    case 0:
      return answer.was_sent ? Verdict::kSuspect : Verdict::kAway;
    case 401:
    case 403:
      return Verdict::kUnwanted;
    case 408:
    case 504:
      return Verdict::kSuspect;
    case 429:
    case 502:
    case 503:
      return Verdict::kRefused;
    default:
      return Verdict::kFinal;
  }
}

std::optional<int64_t> TokensOfBody(const std::string& body) {
  const Json json = ParsedBody(body);
  if (!json.is_object()) return std::nullopt;
  const Pointer tokens("/usage/completion_tokens");
  if (!json.contains(tokens) || !json[tokens].is_number_integer()) return 0;
  return json[tokens].get<int64_t>();
}

std::string Describe(const HttpAnswer& answer) {
  if (answer.status == 0) return answer.trouble;
  const std::string message = TextAt(ParsedBody(answer.body), "/error/message");
  return absl::StrCat("HTTP ", answer.status, message.empty() ? "" : ": ", ShownLine(message));
}

}  // namespace baton::batch
