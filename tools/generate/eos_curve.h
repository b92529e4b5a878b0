#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace baton {

// The EOS probabilities of an answer as a line of bars, at most `columns` wide: each bar is the
// highest of its steps, on a logarithmic scale from 1e-6 (lowest) to 1 (full height).
std::string EosCurve(const std::vector<double>& probabilities, size_t columns);

}  // namespace baton
