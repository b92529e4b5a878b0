#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "common/eos/predict/end_bins.h"
#include "common/eos/predict/signal_features.h"

namespace baton {

// What a model looks at after a row.
struct PredictorInput {
  const SignalFeatures& features;
  std::string_view length_class;
};

// A model of how answers end, as a predictor file holds it. One implementation per kind of model.
// Immutable, so any thread may use it; what goes along with a sequence is its caller's.
class EosPredictor {
 public:
  virtual ~EosPredictor() = default;

  virtual PredictorKind kind() const = 0;
  // Numbers that a sequence carries from row to row, zeros before the first.
  virtual size_t state_size() const = 0;
  // What the model says after the last row of `input`. Called once for every row, in order. `state`
  // has state_size() numbers.
  virtual EndLogits Step(const PredictorInput& input, std::span<double> state) const = 0;
};

}  // namespace baton
