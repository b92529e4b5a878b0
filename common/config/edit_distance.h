#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace baton {

// How many slips of the fingers lead from `a` to `b`: a character inserted, left out or replaced,
// or two neighbours swapped (the restricted distance of Damerau and Levenshtein).
size_t EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `name`, for "did you mean"; "" when none is near enough to be what was
// meant.
std::string NearestName(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace baton
