#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace baton {

// Insertions, deletions and substitutions between `a` and `b` (Levenshtein).
size_t EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `name`; "" when none is near enough to be what was meant.
std::string NearestName(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace baton
