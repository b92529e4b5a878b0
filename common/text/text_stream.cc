#include "common/text/text_stream.h"

#include <utility>

#include "common/base/check.h"

namespace baton {

TextStream::TextStream(const Tokenizer& tokenizer, TextStreamOptions options)
    : stop_strings_(std::move(options.stop_strings)),
      detokenizer_(tokenizer, options.skip_special_tokens),
      matcher_(stop_strings_, options.include_stop) {}

TextPiece TextStream::Append(TokenId id, bool stops_active) {
  BATON_CHECK(!stopped_) << "token " << id << " after the stop at token " << tokens_;
  ++tokens_;
  StopMatchResult match = matcher_.Append(detokenizer_.Append(id), stops_active);
  TextPiece piece{.text = std::move(match.text), .stop = std::nullopt};
  if (match.stop.has_value()) {
    stopped_ = true;
    piece.stop = stop_strings_[*match.stop];
  }
  return piece;
}

std::string TextStream::Finish() {
  if (stopped_) return {};
  // Nothing may stop here any more, so the last character is appended without looking.
  std::string text = matcher_.Append(detokenizer_.Flush(), /*active=*/false).text;
  return text + matcher_.Flush();
}

}  // namespace baton
