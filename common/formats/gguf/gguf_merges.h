#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace baton {

// A longer piece is no word of any language, and would cost the square of its length.
inline constexpr size_t kLongestPiece = 128;

// A piece of SentencePiece's vocabulary.
struct ScoredPiece {
  std::string_view text;  // in UTF-8
  double score = 0;
};

// SentencePiece joins those neighbours whose joint piece has the highest score; byte pairs join the
// pair that is named first. Returns the pairs in the order that makes both the same: every way in
// which a piece divides into two others, by falling score of the piece. Pieces of equal scores,
// which trained vocabularies do not have, keep the order of their ids. INVALID_ARGUMENT for a piece
// of more than kLongestPiece bytes, and for pairs that would take many times the memory of the
// pieces, as those of no language do.
absl::StatusOr<std::vector<std::pair<std::string_view, std::string_view>>> MergesOfPieces(
    std::span<const ScoredPiece> pieces);

}  // namespace baton
