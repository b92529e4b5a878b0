#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace baton {

// What tokenizer_config.json, or the metadata of a GGUF file, says about special tokens. As in
// transformers, special_tokens_map.json overrules a tokenizer_config.json without
// "added_tokens_decoder", and is not read beside one with it.
// A token is its text; Tokenizer::TokenToId turns it into an id.
struct SpecialTokens {
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  std::optional<std::string> pad_token;
  std::optional<std::string> unk_token;
};

// All fields are empty when the directory `model` has neither file. INVALID_ARGUMENT for a file
// that is not a JSON object or has a token of the wrong type.
absl::StatusOr<SpecialTokens> LoadSpecialTokens(const std::string& model);

}  // namespace baton
