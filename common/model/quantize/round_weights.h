#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace baton {

// How the scale of a group of weights is found.
enum class RoundingMethod : uint8_t {
  // The scale that reaches the largest weight of the group.
  kNearest,
  // The scale with the smallest sum of squared errors, among scales around that one. Large weights
  // are then clipped where that brings the many small ones nearer.
  kSearch,
};

// As on the command line: "nearest", "search".
constexpr std::string_view Name(RoundingMethod method) {
  return method == RoundingMethod::kNearest ? "nearest" : "search";
}

// What weights become: signed integers of `bits`, with one scale for `group` columns; or, with
// `fp8`, numbers of e4m3 with one scale for a row, the nearest ones where the largest is 448.
struct RoundingScheme {
  bool fp8 = false;  // of the others none is used then
  int bits = 4;      // 4 or 8
  int64_t group = 32;
  RoundingMethod method = RoundingMethod::kSearch;
};

// Rounds one group of weights: weights[i] is about codes[i] * the returned scale, which a bf16
// holds exactly. Weights are finite.
float RoundGroup(std::span<const float> weights, const RoundingScheme& scheme,
                 std::span<int8_t> codes);

// Likewise a row to e4m3, with a scale of fp32.
float RoundFp8Row(std::span<const float> weights, std::span<uint8_t> codes);

}  // namespace baton
