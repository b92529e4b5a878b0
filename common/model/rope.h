#pragma once

#include <vector>

#include "common/formats/model_config.h"

namespace baton {

// The rotary frequencies [head_dim / 2]: theta^(-2i / head_dim), stretched by the rule of the
// config. They are computed in fp32, as the Python library transformers does, so that angles agree
// at long positions too.
std::vector<float> RopeFrequencies(const RopeConfig& rope, int32_t head_dim);

}  // namespace baton
