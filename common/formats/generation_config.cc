#include "common/formats/generation_config.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/gguf/gguf_config.h"
#include "common/formats/gguf/gguf_file.h"
#include "common/formats/json_reader.h"
#include "common/formats/mapped_file.h"

namespace baton {
namespace {

constexpr double kTiny = 1e-9;  // smallest value of an interval that is open at 0
constexpr double kHuge = 1e6;

std::optional<float> Optional(JsonReader& reader, std::string_view key, double min, double max) {
  if (!reader.Has(key)) return std::nullopt;
  return static_cast<float>(reader.Number(key, min, max, {}));
}

}  // namespace

absl::StatusOr<GenerationConfig> LoadGenerationConfig(const std::string& model) {
  if (IsGgufPath(model)) return LoadGgufGenerationConfig(model);
  GenerationConfig config;
  const std::string path = model + "/generation_config.json";
  if (!IsThere(path)) return config;
  BATON_ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonObject(path));
  JsonReader reader(json, path);
  config.temperature = Optional(reader, "temperature", 0, kHuge);
  config.top_p = Optional(reader, "top_p", kTiny, 1);
  config.min_p = Optional(reader, "min_p", 0, 1);
  config.repetition_penalty = Optional(reader, "repetition_penalty", kTiny, kHuge);
  if (reader.Has("top_k")) {  // -1 and 0 both mean off
    config.top_k =
        std::max<int32_t>(0, static_cast<int32_t>(reader.Int("top_k", -1, INT32_MAX, {})));
  }
  if (reader.Has("max_new_tokens")) {
    config.max_new_tokens = static_cast<int32_t>(reader.Int("max_new_tokens", 1, INT32_MAX, {}));
  }
  config.eos_ids = reader.TokenIds("eos_token_id", INT32_MAX);
  BATON_RETURN_IF_ERROR(reader.status());
  return config;
}

absl::Status AddToEosSet(const ModelConfig& config, TokenId id, const std::string& source,
                         const std::function<std::string(TokenId)>& token_text,
                         std::vector<EosSetEntry>& set) {
  if (id < 0 || id >= config.vocab) {
    return absl::InvalidArgumentError(absl::StrCat("EOS id ", id, " from ", source,
                                                   " is outside the model's vocabulary of ",
                                                   config.vocab, "; correct that file"));
  }
  auto entry = std::find_if(set.begin(), set.end(), [id](const auto& e) { return e.id == id; });
  if (entry == set.end()) {
    entry = set.insert(set.end(), EosSetEntry{id, token_text ? token_text(id) : "", {}});
  }
  if (entry->sources.empty() || entry->sources.back() != source) entry->sources.push_back(source);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<EosSetEntry>> BuildEosSet(
    const ModelConfig& config, const GenerationConfig& generation,
    const std::optional<TokenizerEos>& tokenizer_eos,
    const std::function<std::string(TokenId)>& token_text) {
  std::vector<EosSetEntry> set;
  const auto add = [&](TokenId id, const std::string& source) {
    return AddToEosSet(config, id, source, token_text, set);
  };
  if (tokenizer_eos.has_value()) {
    BATON_RETURN_IF_ERROR(add(tokenizer_eos->id, "tokenizer"));
    set.front().text = tokenizer_eos->text;
  }
  for (const TokenId id : config.eos_ids) BATON_RETURN_IF_ERROR(add(id, "config.json"));
  for (const TokenId id : generation.eos_ids) {
    BATON_RETURN_IF_ERROR(add(id, "generation_config.json"));
  }
  return set;
}

}  // namespace baton
