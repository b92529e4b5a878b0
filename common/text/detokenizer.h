#pragma once

#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "common/text/tokenizer.h"

namespace baton {

// Joins bytes into UTF-8 text piece by piece: what it returns is always complete characters, and
// the pieces concatenated do not depend on where the input was split. Invalid input becomes one
// U+FFFD per maximal invalid part (the Unicode standard's recommendation). Not thread-safe.
class Utf8Assembler {
 public:
  // The characters that `bytes` completes; holds back at most 3 bytes.
  std::string Append(std::string_view bytes);
  // Ends the text. Returns U+FFFD if an incomplete character was held back, else nothing.
  std::string Flush();

 private:
  std::string pending_;  // a proper prefix of one character
};

// The text of one stream of tokens. The leading space of the first token is kept, since it
// continues the prompt. Work per token is proportional to the token's bytes. Not thread-safe.
class StreamingDetokenizer {
 public:
  // `tokenizer` must outlive this. `skip_special_tokens` leaves the text of special tokens out.
  StreamingDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
      : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens) {}

  // The text that `id` adds: possibly nothing, never part of a character.
  std::string Append(TokenId id);
  // Ends the stream. Returns U+FFFD if it ended inside a character, else nothing.
  std::string Flush() { return assembler_.Flush(); }

 private:
  const Tokenizer& tokenizer_;
  const bool skip_special_tokens_;
  Utf8Assembler assembler_;
};

}  // namespace baton
