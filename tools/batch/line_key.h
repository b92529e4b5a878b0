#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace baton::batch {

// What a line is known by: the first 128 bits of a SHA-256 of its custom_id, or of its number where
// it has no custom_id that could be read. So a million lines are told apart in 16 MB.
struct LineKey {
  uint64_t high = 0;
  uint64_t low = 0;

  bool operator==(const LineKey&) const = default;
  template <typename Hash>
  friend Hash AbslHashValue(Hash hash, const LineKey& key) {
    return Hash::combine(std::move(hash), key.high, key.low);
  }
};

// `custom_id` may be empty; `number` counts the lines of the input from 1.
LineKey KeyOf(std::string_view custom_id, int64_t number);

// The "id" of the line's answer, "line-17", and back; 0 for a text that is no such id.
std::string AnswerId(int64_t number);
int64_t NumberOfAnswerId(std::string_view id);

}  // namespace baton::batch
