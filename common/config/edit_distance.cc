#include "common/config/edit_distance.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace baton {

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, above, row(b.size() + 1);  // two rows up, one row up, this one
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, above[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

std::string NearestName(std::string_view name, const std::vector<std::string>& candidates) {
  // A slip of the fingers changes a letter or two; with much more, another thing was meant.
  const size_t dashes = std::min(name.find_first_not_of('-'), name.size());
  std::string best;
  size_t best_distance = std::max<size_t>(2, (name.size() - dashes) / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace baton
