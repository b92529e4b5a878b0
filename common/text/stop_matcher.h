#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton {

// What one piece of text became.
struct StopMatchResult {
  std::string text;            // safe to show: no later text can turn it into a stop string
  std::optional<size_t> stop;  // index of the stop string found; `text` is then the last
};

// Finds the first of several stop strings in a text that arrives in pieces, and holds back what may
// still become one. The result does not depend on how the text was split:
//   - the stop string that ends first wins; of those that end together, the longest; of equal ones,
//     the first given;
//   - the text is cut where it begins, or where it ends with `include_stop`.
// Aho-Corasick over bytes: linear in the text, whatever the stop strings. Not thread-safe.
class StopMatcher {
 public:
  // Empty stop strings never match. Without any stop string all text passes through.
  StopMatcher(std::span<const std::string> stop_strings, bool include_stop);

  // While `active` is false, because min_tokens is not reached, a match that ends in this piece is
  // no stop; one that begins in it and ends in a later, active piece is. After a stop, Append must
  // not be called again.
  StopMatchResult Append(std::string_view text, bool active = true);

  // Ends the text without a stop, and returns what was held back.
  std::string Flush();

 private:
  struct Node {
    // Sorted by byte: stop strings are few and short.
    std::vector<std::pair<uint8_t, int32_t>> children = {};
    int32_t failure = 0;       // the node of the longest proper suffix that begins a stop string
    int32_t depth = 0;         // bytes from the root
    int32_t output = -1;       // index of the longest stop string that ends here, or -1
    int32_t output_bytes = 0;  // and its length
    int32_t held_bytes = 0;    // the longest suffix that a stop string continues
  };
  Node& At(int32_t node) { return nodes_[static_cast<size_t>(node)]; }
  const Node& At(int32_t node) const { return nodes_[static_cast<size_t>(node)]; }
  // The child of a node, or -1 when there is none.
  int32_t Child(int32_t node, uint8_t byte) const;
  int32_t Step(int32_t node, uint8_t byte) const;
  void Insert(std::string_view stop, int32_t index);
  void LinkFailures();
  // Returns what is held except the last `keep` bytes.
  std::string Release(size_t keep);

  const bool include_stop_;
  std::vector<Node> nodes_;  // a trie; [0] is its root
  int32_t state_ = 0;
  std::string held_;  // from held_begin_ on not yet returned; its end spells the node state_
  size_t held_begin_ = 0;
  bool stopped_ = false;
};

}  // namespace baton
