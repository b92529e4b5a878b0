#include "common/formats/gguf/gguf_merges.h"

#include <algorithm>
#include <cstddef>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace baton {
namespace {

// Of all merges: what they take while they are put in order, with the text of each.
constexpr size_t kMostMergeBytes = size_t{128} << 20;

bool BeginsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

struct Merge {
  std::string_view left;
  std::string_view right;
  double score = 0;
  size_t left_rank = 0;
  size_t right_rank = 0;
};

}  // namespace

absl::StatusOr<std::vector<std::pair<std::string_view, std::string_view>>> MergesOfPieces(
    std::span<const ScoredPiece> pieces) {
  absl::flat_hash_map<std::string_view, size_t> ranks;
  for (size_t i = 0; i < pieces.size(); ++i) ranks.emplace(pieces[i].text, i);
  std::vector<std::pair<std::string_view, std::string_view>> ordered;
  std::vector<Merge> merges;
  size_t bytes = 0;
  for (const ScoredPiece& piece : pieces) {
    if (piece.text.size() > kLongestPiece) {
      return absl::InvalidArgumentError(absl::StrCat("a piece of its vocabulary has ",
                                                     piece.text.size(), " bytes; expected at most ",
                                                     kLongestPiece));
    }
    const size_t first = merges.size();
    for (size_t at = 1; at < piece.text.size(); ++at) {
      if (!BeginsCharacter(piece.text[at])) continue;
      const auto left = ranks.find(piece.text.substr(0, at));
      const auto right = ranks.find(piece.text.substr(at));
      if (left == ranks.end() || right == ranks.end()) continue;
      merges.push_back({left->first, right->first, piece.score, left->second, right->second});
    }
    bytes += (merges.size() - first) * (sizeof(Merge) + piece.text.size());
    if (bytes > kMostMergeBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the ways in which its pieces divide into others take more than ", kMostMergeBytes,
          " bytes, which those of no language do; convert the model again"));
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
