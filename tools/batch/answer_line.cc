#include "tools/batch/answer_line.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace baton::batch {
namespace {

using Json = nlohmann::json;

std::string Quoted(std::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Head(const LineName& name) {
  return absl::StrCat(R"({"id":")", AnswerId(name.number), R"(","custom_id":)",
                      name.custom_id.empty() ? "null" : Quoted(name.custom_id));
}

// Pretty JSON of other servers would end the line, and a byte order mark is JSON at a beginning
// only. Line breaks stand between tokens: in a text they are escaped.
std::string OnOneLine(std::string_view json) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (json.starts_with(kByteOrderMark)) json.remove_prefix(kByteOrderMark.size());
  std::string line(json);
  std::ranges::replace_if(
      line, [](char letter) { return letter == '\n' || letter == '\r'; }, ' ');
  return line;
}

}  // namespace

std::string ResponseLine(const LineName& name, long http_status, std::string_view request_id,
                         std::string_view body) {
  return absl::StrCat(Head(name), R"(,"response":{"status_code":)", http_status,
                      R"(,"request_id":)", Quoted(request_id), R"(,"body":)", OnOneLine(body),
                      "},\"error\":null}\n");
}

std::string ErrorLine(const LineName& name, std::string_view code, std::string_view message) {
  return absl::StrCat(Head(name), R"(,"response":null,"error":{"code":)", Quoted(code),
                      R"(,"message":)", Quoted(message), "}}\n");
}

std::optional<AnswerHead> HeadOfAnswer(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("id") || !json.contains("custom_id") ||
      !json.contains("response") || !json.contains("error")) {
    return std::nullopt;
  }
  const auto* const id = json["id"].get_ptr<const std::string*>();
  const int64_t number = id != nullptr ? NumberOfAnswerId(*id) : 0;
  const auto* const custom_id = json["custom_id"].get_ptr<const std::string*>();
  if (number == 0 || (custom_id == nullptr && !json["custom_id"].is_null())) return std::nullopt;
  const Json& response = json["response"];
  const bool answered = response.is_object() && response.value("status_code", Json()) == 200;
  return AnswerHead{.key = KeyOf(custom_id != nullptr ? *custom_id : "", number),
                    .failed = !answered || !json["error"].is_null()};
}

}  // namespace baton::batch
