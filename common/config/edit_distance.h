#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace baton {

// How many insertions, deletions and substitutions of a character lead from `a` to `b`
// (Levenshtein's distance).
size_t EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `name`, for "did you mean"; "" when none is near enough to be what was
// meant.
std::string NearestName(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace baton
