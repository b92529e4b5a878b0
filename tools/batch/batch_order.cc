#include "tools/batch/batch_order.h"

#include <algorithm>

namespace baton::batch {
namespace {

constexpr int64_t kLeastUnlimited = 1024;
constexpr double kPromptWeight = 1.0 / 16;

}  // namespace

double ExpectedCost(const InputLine& line, int64_t unlimited) {
  return static_cast<double>(line.limit < 0 ? unlimited : line.limit) + kPromptWeight * line.prompt;
}

int64_t LongestLimit(const std::vector<InputLine>& lines) {
  int64_t longest = kLeastUnlimited;
  for (const InputLine& line : lines) longest = std::max<int64_t>(longest, line.limit);
  return longest;
}

void OrderByCost(std::vector<InputLine>* lines) {
  const int64_t unlimited = LongestLimit(*lines);
  std::stable_sort(lines->begin(), lines->end(),
                   [unlimited](const InputLine& one, const InputLine& other) {
                     return ExpectedCost(one, unlimited) > ExpectedCost(other, unlimited);
                   });
}

}  // namespace baton::batch
