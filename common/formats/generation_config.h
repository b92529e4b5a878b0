#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/formats/model_config.h"

namespace baton {

// What generation_config.json says: the defaults for what a request leaves out, and EOS ids. As in
// vLLM, a value counts when it stands in the file; `do_sample` does not.
struct GenerationConfig {
  std::optional<float> temperature;
  std::optional<int32_t> top_k;  // 0 = off
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<int32_t> max_new_tokens;
  std::vector<TokenId> eos_ids;
};

// What generation_config.json of the directory `model` says, or the metadata of the GGUF file
// `model`; empty where neither says anything. INVALID_ARGUMENT for values that a request could not
// have either.
absl::StatusOr<GenerationConfig> LoadGenerationConfig(const std::string& model);

// One id of the EOS set, and the places that name it: "tokenizer", "config.json",
// "generation_config.json".
struct EosSetEntry {
  TokenId id = 0;
  std::string text;
  std::vector<std::string> sources;
};

// The end-of-sequence token that the tokenizer's own configuration names.
struct TokenizerEos {
  TokenId id = 0;
  std::string text;
};

// Adds an id to the set, or `source` to those of an id that it has. `token_text` spells an id (may
// be null: no tokenizer). INVALID_ARGUMENT for an id outside the model's vocabulary.
absl::Status AddToEosSet(const ModelConfig& config, TokenId id, const std::string& source,
                         const std::function<std::string(TokenId)>& token_text,
                         std::vector<EosSetEntry>& set);

// Builds the EOS set, which is the union of the three places, the tokenizer's id first. Each of
// them alone is incomplete for some published model. `token_text` spells an id (may be null: no
// tokenizer). INVALID_ARGUMENT for an id outside the model's vocabulary.
absl::StatusOr<std::vector<EosSetEntry>> BuildEosSet(
    const ModelConfig& config, const GenerationConfig& generation,
    const std::optional<TokenizerEos>& tokenizer_eos,
    const std::function<std::string(TokenId)>& token_text);

}  // namespace baton
