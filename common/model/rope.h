#pragma once

#include <vector>

#include "common/formats/model_config.h"

namespace baton {

// inv_freq[i] = theta^(-2i / head_dim), stretched by the config's rule; [head_dim / 2]. Computed in
// fp32, as transformers does, so that angles agree at long positions too.
std::vector<float> RopeFrequencies(const RopeConfig& rope, int32_t head_dim);

}  // namespace baton
