#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/formats/model_config.h"
#include "nlohmann/json.hpp"

namespace baton {

// Positions beyond this are refused: every product of sizes stays below 2^60.
inline constexpr int64_t kMaxPositions = 1 << 28;

// The rotary embedding of a config.json: `rope_parameters` as transformers 5 writes it, or
// `rope_theta` and `rope_scaling` as transformers 4 does. Where both stand there they have to mean
// the same: transformers takes `rope_scaling` alone, even its rope_theta, which hardly anyone means
// who adds it to the other. Rules that depend on the length of the sequence (dynamic, longrope) are
// refused by name: they would make a token's key depend on when it was computed.
absl::StatusOr<RopeConfig> ReadRopeConfig(const nlohmann::json& config, const std::string& where,
                                          int64_t max_positions);

}  // namespace baton
