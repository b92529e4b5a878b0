#include "tools/generate/eos_curve.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace baton {
namespace {

constexpr std::array<const char*, 8> kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr double kLowest = 1e-6;

const char* BarOf(double probability) {
  if (!(probability > kLowest)) return kBars[0];
  const double height = 1 - std::log10(std::min(probability, 1.0)) / std::log10(kLowest);
  return kBars[static_cast<size_t>(std::lround(height * (kBars.size() - 1)))];
}

}  // namespace

std::string EosCurve(const std::vector<double>& probabilities, size_t columns) {
  std::string curve;
  const size_t bars = std::min(columns, probabilities.size());
  for (size_t bar = 0; bar < bars; ++bar) {
    const size_t begin = bar * probabilities.size() / bars;
    const size_t end = (bar + 1) * probabilities.size() / bars;
    curve += BarOf(*std::max_element(probabilities.begin() + static_cast<ptrdiff_t>(begin),
                                     probabilities.begin() + static_cast<ptrdiff_t>(end)));
  }
  return curve;
}

}  // namespace baton
