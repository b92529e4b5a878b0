#include "router/openai/text_pieces.h"

namespace baton {
namespace {

constexpr size_t kPieceBytes = size_t{64} << 10;

}  // namespace

void TextPieces::Append(std::string_view text) {
  if (pieces_.empty() || pieces_.back().size() >= kPieceBytes) pieces_.emplace_back();
  pieces_.back().append(text);
  bytes_ += text.size();
}

void TextPieces::Append(TextPieces text) {
  for (std::string& piece : text.pieces_) {
    if (piece.size() < kPieceBytes) {
      Append(std::string_view(piece));
    } else {
      bytes_ += piece.size();
      pieces_.push_back(std::move(piece));
    }
  }
}

std::vector<std::string> TextPieces::Take() {
  bytes_ = 0;
  return std::exchange(pieces_, {});
}

}  // namespace baton
