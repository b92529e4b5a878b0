#include <algorithm>
#include <cmath>

#include "common/eos/predict/models.h"

namespace baton {
namespace {

double Gate(double z) { return 1 / (1 + std::exp(-z)); }

// bias + weights · x: [3 hidden].
std::vector<double> Affine(const std::vector<float>& weights, const std::vector<float>& bias,
                           std::span<const double> x) {
  std::vector<double> y(bias.begin(), bias.end());
  for (size_t row = 0; row < y.size(); ++row) y[row] += Dot(weights.data() + row * x.size(), x);
  return y;
}

}  // namespace

EndLogits GruModel::Step(const PredictorInput& input, std::span<double> state) const {
  std::vector<double> x(inputs_.size());
  ReadInputs(inputs_, input.features, x);
  const std::vector<double> from_input = Affine(gru_.w_ih, gru_.b_ih, x);
  const std::vector<double> from_state = Affine(gru_.w_hh, gru_.b_hh, state);
  const size_t hidden = state.size();
  for (size_t i = 0; i < hidden; ++i) {
    const double r = Gate(from_input[i] + from_state[i]);
    const double z = Gate(from_input[hidden + i] + from_state[hidden + i]);
    const double n = std::tanh(from_input[2 * hidden + i] + r * from_state[2 * hidden + i]);
    state[i] = (1 - z) * n + z * state[i];
  }
  std::vector<double> head(hidden + head_inputs_.size());
  std::copy(state.begin(), state.end(), head.begin());
  ReadInputs(head_inputs_, input.features, std::span(head).subspan(hidden));
  const std::vector<double> values = RunLayers(head_, std::move(head));
  EndLogits logits{};
  std::copy_n(values.begin(), kBins, logits.begin());
  return logits;
}

}  // namespace baton
