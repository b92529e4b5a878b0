#include "tools/batch/http_answer.h"

#include <string_view>

#include "absl/strings/str_cat.h"
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

// Text in UTF-8 with a space in the place of each control character, so that it stays in its line
// and a terminal only shows it.
std::string WithoutControls(std::string_view text) {
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F are controls, too.
    const bool two =
        byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    i += two ? 1 : 0;
    shown += byte < 0x20 || byte == 0x7F || two ? ' ' : text[i];
  }
  return shown;
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
  return absl::StrCat("HTTP ", answer.status, message.empty() ? "" : ": ",
                      WithoutControls(message));
}

}  // namespace baton::batch
