#include "tools/sim/least_squares.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "common/base/check.h"

namespace baton::simulator {
namespace {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;
constexpr size_t kMostTerms = 12;

// The normal equations a · x = b, of terms that were scaled to one size, so that elimination knows
// what is next to nothing.
struct Equations {
  Matrix a;
  Vector b;
  Vector scale;  // 0 where the term is 0 in all samples
};

Equations EquationsOf(const Matrix& samples, size_t terms) {
  Equations all{Matrix(terms, Vector(terms, 0)), Vector(terms, 0), Vector(terms, 0)};
  for (const Vector& sample : samples) {
    for (size_t i = 0; i < terms; ++i) {
      all.b[i] += sample[i];
      for (size_t j = 0; j < terms; ++j) all.a[i][j] += sample[i] * sample[j];
    }
  }
  for (size_t i = 0; i < terms; ++i) all.scale[i] = all.a[i][i] > 0 ? std::sqrt(all.a[i][i]) : 0;
  for (size_t i = 0; i < terms; ++i) {
    if (all.scale[i] == 0) continue;
    all.b[i] /= all.scale[i];
    for (size_t j = 0; j < terms; ++j) {
      all.a[i][j] = all.scale[j] == 0 ? 0 : all.a[i][j] / all.scale[i] / all.scale[j];
    }
  }
  return all;
}

// Solves for the chosen terms by elimination, the others being 0. Empty when they do not decide.
std::optional<Vector> Solve(const Equations& all, const std::vector<size_t>& chosen) {
  const size_t n = chosen.size();
  Matrix m(n, Vector(n + 1));
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) m[i][j] = all.a[chosen[i]][chosen[j]];
    m[i][n] = all.b[chosen[i]];
  }
  for (size_t column = 0; column < n; ++column) {
    size_t pivot = column;
    for (size_t i = column; i < n; ++i) {
      if (std::abs(m[i][column]) > std::abs(m[pivot][column])) pivot = i;
    }
    std::swap(m[column], m[pivot]);
    if (std::abs(m[column][column]) < 1e-12) return std::nullopt;
    for (size_t i = 0; i < n; ++i) {
      if (i == column) continue;
      const double factor = m[i][column] / m[column][column];
      for (size_t j = column; j <= n; ++j) m[i][j] -= factor * m[column][j];
    }
  }
  Vector x(all.b.size(), 0);
  for (size_t i = 0; i < n; ++i) x[chosen[i]] = m[i][n] / m[i][i];
  return x;
}

// The squares, less their part that no choice changes.
double SquaresOf(const Equations& all, const Vector& x) {
  double squares = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    squares -= 2 * x[i] * all.b[i];
    for (size_t j = 0; j < x.size(); ++j) squares += x[i] * all.a[i][j] * x[j];
  }
  return squares;
}

}  // namespace

LeastSquares NonNegativeSumToOne(const Matrix& samples) {
  const size_t terms = samples.empty() ? 0 : samples.front().size();
  BATON_CHECK(terms <= kMostTerms) << terms << " terms";
  const Equations all = EquationsOf(samples, terms);
  LeastSquares best{.weights = Vector(terms, 0)};
  double least = 0;
  for (uint32_t choice = 1; choice < 1U << terms; ++choice) {
    std::vector<size_t> chosen;
    for (size_t i = 0; i < terms; ++i) {
      if ((choice >> i & 1) != 0) chosen.push_back(i);
    }
    const auto x = Solve(all, chosen);
    if (!x || std::ranges::any_of(*x, [](double value) { return !(value >= 0); })) continue;
    const double squares = SquaresOf(all, *x);
    if (squares >= least) continue;
    least = squares;
    best.weights = *x;
  }
  for (size_t i = 0; i < terms; ++i) {
    if (all.scale[i] > 0) best.weights[i] /= all.scale[i];
  }
  for (const Vector& sample : samples) {
    double off = -1;
    for (size_t i = 0; i < terms; ++i) off += best.weights[i] * sample[i];
    best.squares += off * off;
  }
  return best;
}

}  // namespace baton::simulator
