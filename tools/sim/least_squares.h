#pragma once

#include <vector>

namespace baton::simulator {

struct LeastSquares {
  std::vector<double> weights;  // of each term
  double squares = 0;  // of what is left: the sum of (terms · weights - 1)² of all samples
};

// The weights, none below zero, by which the terms of every sample add up to 1 as nearly as can be.
// All samples have the same terms, at most 12: every choice of those above zero is tried.
LeastSquares NonNegativeSumToOne(const std::vector<std::vector<double>>& samples);

}  // namespace baton::simulator
