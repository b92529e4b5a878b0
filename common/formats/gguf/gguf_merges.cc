#include "common/formats/gguf/gguf_merges.h"

#include <algorithm>
#include <cstddef>

#include "absl/container/flat_hash_map.h"

namespace baton {
namespace {

// A longer piece is no word of any language, and would cost the square of its length.
constexpr size_t kLongestPiece = 1024;

bool BeginsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

struct Merge {
  std::string_view left;
  std::string_view right;
  double score = 0;
  size_t left_rank = 0;
  size_t right_rank = 0;
};

}  // namespace

std::vector<std::pair<std::string_view, std::string_view>> MergesOfPieces(
    std::span<const ScoredPiece> pieces) {
  absl::flat_hash_map<std::string_view, size_t> ranks;
  for (size_t i = 0; i < pieces.size(); ++i) ranks.emplace(pieces[i].text, i);
  std::vector<std::pair<std::string_view, std::string_view>> ordered;
  std::vector<Merge> merges;
  for (const ScoredPiece& piece : pieces) {
    if (piece.text.size() > kLongestPiece) continue;
    const size_t first = merges.size();
    for (size_t at = 1; at < piece.text.size(); ++at) {
      if (!BeginsCharacter(piece.text[at])) continue;
      const auto left = ranks.find(piece.text.substr(0, at));
      const auto right = ranks.find(piece.text.substr(at));
      if (left == ranks.end() || right == ranks.end()) continue;
      merges.push_back({left->first, right->first, piece.score, left->second, right->second});
    }
    std::sort(merges.begin() + static_cast<std::ptrdiff_t>(first), merges.end(),
              [](const Merge& a, const Merge& b) {
                return std::pair(a.left_rank, a.right_rank) < std::pair(b.left_rank, b.right_rank);
              });
  }
  std::stable_sort(merges.begin(), merges.end(),
                   [](const Merge& a, const Merge& b) { return a.score > b.score; });
  ordered.reserve(merges.size());
  for (const Merge& merge : merges) ordered.emplace_back(merge.left, merge.right);
  return ordered;
}

}  // namespace baton
