#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace baton {

// How a byte-pair tokenizer of GGUF divides a text before it looks for tokens.
struct GgufPreTokenizer {
  std::vector<std::string_view> names;  // in "tokenizer.ggml.pre"
  // Expressions by which a text is divided, one after the other. A last one that is empty stands
  // for GPT-2's own.
  std::vector<std::string_view> patterns;
  bool nfc = false;            // the text is normalized first
  bool ignore_merges = false;  // a whole piece that is a token stays one
  bool adds_bos = false;       // where the file does not say
};

// Null for a name that is not known.
const GgufPreTokenizer* FindGgufPreTokenizer(std::string_view name);
// For messages.
std::string KnownGgufPreTokenizers();

// The "pre_tokenizer" of a tokenizer.json.
std::string PreTokenizerJson(const GgufPreTokenizer& pre);

}  // namespace baton
