#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace baton {

// A piece of SentencePiece's vocabulary.
struct ScoredPiece {
  std::string_view text;  // in UTF-8
  double score = 0;
};

// SentencePiece joins those neighbours whose joint piece has the highest score; byte pairs join the
// pair that is named first. Returns the pairs in the order that makes both the same: every way in
// which a piece divides into two others, by falling score of the piece. Pieces of equal scores,
// which trained vocabularies do not have, keep the order of their ids.
std::vector<std::pair<std::string_view, std::string_view>> MergesOfPieces(
    std::span<const ScoredPiece> pieces);

}  // namespace baton
