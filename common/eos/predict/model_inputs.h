#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/eos/predict/signal_features.h"

namespace baton {

// One number that a model reads: a feature of the row, or a product of the probe.
struct ModelInput {
  enum class Source : uint8_t { kFeature, kProbe, kFirstProbe };
  Source source = Source::kFeature;
  size_t index = 0;            // of the feature or of the direction
  double mean = 0, scale = 1;  // the model reads (value - mean) / scale
};

// Writes the numbers that `inputs` name, in their order. A product that is not there counts as 0:
// callers look for that before (EndPredictor).
inline void ReadInputs(const std::vector<ModelInput>& inputs, const SignalFeatures& features,
                       std::span<double> out) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ModelInput& input = inputs[i];
    double value = 0;
    if (input.source == ModelInput::Source::kFeature) {
      value = features.values()[input.index];
    } else {
      const std::span<const float> products =
          input.source == ModelInput::Source::kProbe ? features.probe() : features.first_probe();
      if (input.index < products.size()) value = double{products[input.index]};
    }
    out[i] = (value - input.mean) / input.scale;
  }
}

}  // namespace baton
