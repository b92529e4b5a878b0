#include "common/formats/gguf/gguf_pre_tokenizers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

constexpr std::string_view kGpt2 = "";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// What llama.cpp does where the converter did not know the tokenizer.
constexpr std::string_view kDefaultSymbols = R"([\p{P}\$\+<=>\^~\|]+)";
constexpr std::string_view kDefaultWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";

const std::vector<GgufPreTokenizer>& Known() {
  static const auto* const known = new std::vector<GgufPreTokenizer>{
      {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"},
       .patterns = {kLlama3},
       .ignore_merges = true,
       .adds_bos = true},
      {.names = {"qwen2"}, .patterns = {kQwen2}, .nfc = true},
      {.names = {"deepseek-r1-qwen"}, .patterns = {kQwen2}},
      {.names = {"tekken"}, .patterns = {kTekken}, .ignore_merges = true, .adds_bos = true},
      {.names = {"smollm"}, .patterns = {R"(\p{N})", kGpt2}},
      {.names = {"gpt-2"}, .patterns = {kGpt2}},
      {.names = {"default"},
       .patterns = {kDefaultSymbols, kDefaultWords, R"(\p{N}+)", "[0-9][0-9][0-9]"}}};
  return *known;
}

}  // namespace

const GgufPreTokenizer* FindGgufPreTokenizer(std::string_view name) {
  for (const GgufPreTokenizer& pre : Known()) {
    if (std::ranges::find(pre.names, name) != pre.names.end()) return &pre;
  }
  return nullptr;
}

std::string KnownGgufPreTokenizers() {
  std::string list;
  for (const GgufPreTokenizer& pre : Known()) {
    for (const std::string_view name : pre.names) {
      absl::StrAppend(&list, list.empty() ? "" : ", ", std::string(name));
    }
  }
  return list;
}

std::string PreTokenizerJson(const GgufPreTokenizer& pre) {
  nlohmann::json steps = nlohmann::json::array();
  for (const std::string_view pattern : pre.patterns) {
    if (pattern.empty()) continue;
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", std::string(pattern)}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back({{"type", "ByteLevel"},
                   {"add_prefix_space", false},
                   {"trim_offsets", true},
                   {"use_regex", pre.patterns.back().empty()}});
  return nlohmann::json{{"type", "Sequence"}, {"pretokenizers", steps}}.dump();
}

}  // namespace baton
