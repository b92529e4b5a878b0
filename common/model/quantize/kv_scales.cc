#include "common/model/quantize/kv_scales.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/model/quantize/fp8_reader.h"
#include "common/model/quantize/quantized_parts.h"

namespace baton {

absl::StatusOr<std::vector<KvScales>> ReadKvScales(const ModelConfig& config,
                                                   const CheckpointFiles& files) {
  std::vector<KvScales> scales(static_cast<size_t>(config.layers));
  if (!config.quantization.has_value() || !config.quantization->kv_scales) return scales;
  for (int32_t layer = 0; layer < config.layers; ++layer) {
    KvScales& of_layer = scales[static_cast<size_t>(layer)];
    for (const char kind : {'k', 'v'}) {
      const StoredTensor* const tensor = FindKvScale(files, layer, kind);
      BATON_CHECK(tensor != nullptr) << "the scale of layer " << layer << " passed CheckTensors";
      BATON_ASSIGN_OR_RETURN(const std::vector<float> values, ReadScales(*tensor));
      (kind == 'k' ? of_layer.k : of_layer.v) = values.front();
    }
  }
  return scales;
}

}  // namespace baton
