#include "router/openai/logprobs_json.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity; clients know this number for a token that cannot be drawn.
constexpr double kLeastLogprob = -9999;

double FiniteLogprob(float logprob) { return logprob > kLeastLogprob ? logprob : kLeastLogprob; }

// A token's bytes, which are those of the text where it is whole characters.
template <typename Entry>
const std::string& BytesOf(const Entry& entry) {
  return entry.raw_bytes().empty() ? entry.text() : entry.raw_bytes();
}

template <typename Entry>
Json TokenJson(const Entry& entry) {
  const std::string& bytes = BytesOf(entry);
  return {{"token", entry.text()},
          {"logprob", FiniteLogprob(entry.logprob())},
          {"bytes", std::vector<uint8_t>(bytes.begin(), bytes.end())}};
}

int64_t Characters(std::string_view text) {
  return std::ranges::count_if(text,
                               [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; });
}

// What a completion calls a token: its text or, as with OpenAI, its bytes where it is a part of a
// character. Texts of different parts would all be U+FFFD.
template <typename Entry>
std::string NameOf(const Entry& entry) {
  if (entry.raw_bytes().empty()) return entry.text();
  std::string name = "bytes:";
  for (const char byte : entry.raw_bytes()) {
    absl::StrAppendFormat(&name, "\\x%02x", static_cast<uint8_t>(byte));
  }
  return name;
}

// By name, most likely first; of tokens that have one name, the likeliest.
Json TopByName(const v1::TokenLogprobs& token) {
  Json top = Json::object();
  for (const v1::TokenLogprob& entry : token.top()) {
    const std::string name = NameOf(entry);
    if (!top.contains(name)) top[name] = FiniteLogprob(entry.logprob());
  }
  const std::string drawn = NameOf(token);
  if (!top.contains(drawn)) top[drawn] = FiniteLogprob(token.logprob());
  return top;
}

Json EmptyLists() {
  return {{"text_offset", Json::array()},
          {"token_logprobs", Json::array()},
          {"tokens", Json::array()},
          {"top_logprobs", Json::array()}};
}

void AddToLists(const v1::TokenLogprobs& token, int64_t offset, Json* lists) {
  const bool scored = token.has_logprob();
  (*lists)["text_offset"].push_back(offset);
  (*lists)["token_logprobs"].push_back(scored ? Json(FiniteLogprob(token.logprob())) : Json());
  (*lists)["tokens"].push_back(NameOf(token));
  (*lists)["top_logprobs"].push_back(scored ? TopByName(token) : Json());
}

}  // namespace

int64_t TextPlace::characters() const { return whole_ + Characters(Unfinished()); }

std::string TextPlace::TextOf(std::string_view bytes) const {
  Utf8Assembler assembler = assembler_;
  return assembler.Append(bytes);
}

std::string TextPlace::Unfinished() const {
  Utf8Assembler assembler = assembler_;
  return assembler.Flush();
}

void TextPlace::Finish() { whole_ += Characters(assembler_.Flush()); }

void TextPlace::AddToken(std::string_view bytes) { whole_ += Characters(assembler_.Append(bytes)); }

Json ChatLogprobs(const v1::Delta& delta) {
  Json content = Json::array();
  for (const v1::TokenLogprobs& token : delta.logprobs()) {
    Json entry = TokenJson(token);
    Json& top = entry["top_logprobs"] = Json::array();
    for (const v1::TokenLogprob& alternative : token.top()) top.push_back(TokenJson(alternative));
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json CompletionLogprobs(const v1::Delta& delta, const LeftOut& left_out, TextPlace* place) {
  Json lists = EmptyLists();
  for (int i = 0; i < delta.logprobs_size(); ++i) {
    const v1::TokenLogprobs& token = delta.logprobs(i);
    AddToLists(token, place->characters(), &lists);
    const bool is_left_out = left_out && i < delta.token_ids_size() && left_out(delta.token_ids(i));
    if (!is_left_out) place->AddToken(BytesOf(token));
  }
  return lists;
}

Json PromptLogprobs(const v1::Prompt& prompt, std::string_view* text, TextPlace* place) {
  Json lists = EmptyLists();
  for (const v1::TokenLogprobs& token : prompt.logprobs()) {
    const int64_t offset = place->characters();
    AddToLists(token, offset, &lists);
    std::string_view bytes = BytesOf(token);
    // Some tokenizers drop the space that they put before a text.
    if (offset == 0 && !text->starts_with(bytes) && bytes.starts_with(' ')) bytes.remove_prefix(1);
    const std::string shown = place->TextOf(bytes);
    if (!text->starts_with(shown)) continue;
    text->remove_prefix(shown.size());
    place->AddToken(bytes);
  }
  // The prompt ends inside a character, which nothing of the answer finishes.
  if (*text == place->Unfinished()) {
    *text = {};
    place->Finish();
  }
  return lists;
}

}  // namespace baton
