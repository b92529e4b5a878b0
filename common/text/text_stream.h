#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/text/detokenizer.h"
#include "common/text/stop_matcher.h"
#include "common/text/tokenizer.h"

namespace baton {

struct TextStreamOptions {
  std::vector<std::string> stop_strings;
  // Whether the stop string itself is part of the text.
  bool include_stop = false;
  bool skip_special_tokens = true;
};

// The text of one request as its tokens are accepted: detokenizer and stop strings in one. Feed
// each accepted token once, in order; a new attempt goes on with the same object. Not thread-safe.
//
//   for each accepted token:
//     TextPiece piece = stream.Append(id, /*stops_active=*/index >= min_tokens);
//     deliver(id, piece.text);
//     if (piece.stop) end the request: stop_string, tokens = stream.tokens()
//   at any other end: deliver(stream.Finish())
//
// An EOS whose text must not be sent is simply not appended.
struct TextPiece {
  std::string text;                 // complete characters, may be empty
  std::optional<std::string> stop;  // the stop string that ended the text with this very token
};

class TextStream {
 public:
  // `tokenizer` must outlive this.
  TextStream(const Tokenizer& tokenizer, TextStreamOptions options);

  // `stops_active` is false for the tokens before min_tokens is reached. A stop string is found at
  // the token that completes it: that token is the last of the request, and everything after it is
  // neither delivered nor billed. Once a stop was found, further calls are refused (a CHECK).
  TextPiece Append(TokenId id, bool stops_active = true);

  // The rest of the text when the request ends otherwise: what was held back, and U+FFFD for an
  // incomplete character. Empty after a stop.
  std::string Finish();

  // How many tokens were appended so far, the one with the stop included.
  int64_t tokens() const { return tokens_; }
  bool stopped() const { return stopped_; }

 private:
  const std::vector<std::string> stop_strings_;
  StreamingDetokenizer detokenizer_;
  StopMatcher matcher_;
  int64_t tokens_ = 0;
  bool stopped_ = false;
};

}  // namespace baton
