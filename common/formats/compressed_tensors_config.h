#pragma once

#include "absl/status/statusor.h"
#include "common/formats/json_reader.h"
#include "common/formats/quantization_config.h"

namespace baton {

// Reads the "quantization_config" of the method "compressed-tensors", but for its kv_cache_scheme.
// INVALID_ARGUMENT for what ReadQuantizationConfig refuses.
absl::StatusOr<QuantizationConfig> ReadCompressedTensors(JsonReader& reader);

}  // namespace baton
