#include "tools/batch/batch_line.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/shallow_json.h"

namespace baton::batch {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kCompletions = "/v1/completions";
constexpr std::string_view kChat = "/v1/chat/completions";
constexpr size_t kMaxIdBytes = 1024;
// Of OpenAI's /v1/completions, where a body names no other.
constexpr int64_t kCompletionsLimit = 16;
constexpr int64_t kBytesPerToken = 4;

// A router takes 32 in a body.
constexpr int kMaxDepth = 64;

absl::Status Wrong(std::string_view what) {
  return absl::InvalidArgumentError({what.data(), what.size()});
}

// The text of a field, or nothing.
const std::string* TextOf(const OrderedJson& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : found->get_ptr<const std::string*>();
}

// A value as a message shows it.
std::string Shown(const OrderedJson& object, const char* key) {
  constexpr size_t kMost = 80;
  if (!object.contains(key)) return "none";
  std::string text = object[key].dump(-1, ' ', true);
  if (text.size() > kMost) text = text.substr(0, kMost) + "…";
  return text;
}

absl::Status TakeId(const OrderedJson& json, std::string* id) {
  const std::string* const text = TextOf(json, "custom_id");
  if (text == nullptr || text->empty() || text->size() > kMaxIdBytes) {
    return Wrong(absl::StrCat("custom_id is ", Shown(json, "custom_id"),
                              "; expected a text of 1 to ", kMaxIdBytes, " bytes"));
  }
  *id = *text;
  return absl::OkStatus();
}

absl::Status CheckRequest(const OrderedJson& json) {
  const std::string* const method = TextOf(json, "method");
  if (method == nullptr || *method != "POST") {
    return Wrong(absl::StrCat("method is ", Shown(json, "method"), "; expected \"POST\""));
  }
  const std::string* const url = TextOf(json, "url");
  if (url == nullptr || (*url != kCompletions && *url != kChat)) {
    return Wrong(absl::StrCat("url is ", Shown(json, "url"), "; expected \"",
                              std::string(kCompletions), "\" or \"", std::string(kChat), "\""));
  }
  if (!json.contains("body") || !json["body"].is_object()) {
    return Wrong(absl::StrCat("body is ", Shown(json, "body"), "; expected an object"));
  }
  const OrderedJson& body = json["body"];
  const auto stream = body.find("stream");
  if (stream == body.end() || stream->is_null() || *stream == false) return absl::OkStatus();
  return Wrong("body.stream is set; expected false or nothing: a batch has whole answers only");
}

std::optional<int64_t> WholeNumber(const OrderedJson& body, const char* key) {
  const auto found = body.find(key);
  if (found == body.end() || !found->is_number_integer()) return std::nullopt;
  return std::max<int64_t>(0, found->get<int64_t>());
}

}  // namespace

BatchLine ParseBatchLine(std::string_view text) {
  BatchLine line;
  if (static_cast<int64_t>(text.size()) > kMaxLineBytes) {
    line.wrong = Wrong(absl::StrCat("the line has more than ", kMaxLineBytes, " bytes"));
    return line;
  }
  auto [json, too_deep] = ParseShallow<OrderedJson>(text, kMaxDepth);
  if (too_deep) {
    line.wrong = Wrong(absl::StrCat("the line nests more than ", kMaxDepth, " levels"));
    return line;
  }
  if (text.find('\0') != std::string_view::npos) {
    line.wrong = Wrong("the line has a byte 0; expected JSON");
    return line;
  }
  if (!json.is_object()) {
    line.wrong = Wrong(
        "the line is no JSON object; expected {\"custom_id\": …, \"method\": \"POST\", \"url\": …, "
        "\"body\": {…}}");
    return line;
  }
  line.wrong = TakeId(json, &line.custom_id);
  if (line.wrong.ok()) line.wrong = CheckRequest(json);
  if (!line.wrong.ok()) return line;
  line.url = *TextOf(json, "url");
  line.body = std::move(json["body"]);
  return line;
}

LineLengths LengthsOf(const BatchLine& line, int64_t text_bytes) {
  LineLengths lengths{.prompt = text_bytes / kBytesPerToken, .limit = {}};
  const auto prompt = line.body.find("prompt");
  if (prompt != line.body.end() && prompt->is_array() && !prompt->empty() &&
      prompt->front().is_number()) {
    lengths.prompt = static_cast<int64_t>(prompt->size());
  }
  lengths.limit = WholeNumber(line.body, "max_completion_tokens");
  if (!lengths.limit) lengths.limit = WholeNumber(line.body, "max_tokens");
  if (!lengths.limit && line.url == kCompletions) lengths.limit = kCompletionsLimit;
  return lengths;
}

}  // namespace baton::batch
