#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/formats/gguf/gguf_file.h"

namespace baton {

// What a GGUF file says of its tokenizer beside the tokenizer itself. Texts are those of tokens of
// the vocabulary, and empty where the file names none.
struct GgufText {
  std::string bos;
  std::string eos;
  std::string unknown;
  std::string chat_template;
  // The ids that end an answer, in order, and what names each: a key of the metadata, or "its text"
  // for tokens that end a turn in every model that has them, which are control tokens therefore.
  std::vector<std::pair<TokenId, std::string>> ends;
};

// INVALID_ARGUMENT for ids without a token.
absl::StatusOr<GgufText> ReadGgufText(const GgufFile& file);

// The tokenizer as the text of a tokenizer.json. NOT_FOUND where the file has none;
// INVALID_ARGUMENT, with what is known, for a kind of tokenizer or of pre-tokenizer that is not,
// and for lists that do not fit each other.
absl::StatusOr<std::string> GgufTokenizerJson(const GgufFile& file);

// The parts of the metadata that decide what ids mean: every key of the tokenizer with its type and
// bytes.
std::vector<std::string_view> GgufTokenizerBytes(const GgufFile& file);

}  // namespace baton
