#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "common/formats/model_config.h"
#include "common/model/activations.h"
#include "common/model/weights.h"
#include "kernels/backend.h"
#include "kernels/backend_factory.h"
#include "kernels/dtype.h"

namespace baton {

// How much memory a model takes beside its KV cache, so that LoadModel can refuse a model that does
// not fit before the long part of a load.
struct MemoryNeed {
  double weights = 0;      // bytes
  double activations = 0;  // bytes
  double swap_space = 0;   // bytes; of the host's memory, so it counts there alone

  // With `config.quantization`, projections of layers count as what they are stored in, and so does
  // an output projection that config.json says is integers. Those of e4m3 do so only where
  // `quantization` is kFp8, which is then for a device that takes them as they are, and else count
  // as `dtype`. What `ranks` ranks of such a `shape` need together: all of a group on the host, one
  // of it on a GPU.
  static MemoryNeed Of(const ModelConfig& config, const LocalShape& shape, int32_t ranks,
                       kernels::DType dtype, kernels::Quantization quantization,
                       const StepLimits& limits);
};

// What a rank on a GPU takes beside that, where its projections are small integers: room to widen
// the largest of them to `dtype`. An output projection that is not tied to the embeddings counts
// unless the checkpoint's description says that it is no integers. 0 for any other model.
double WideningBytes(const ModelConfig& config, const LocalShape& shape, kernels::DType dtype);

// What the projections of a rank take beside MemoryNeed::weights on a GPU, which keeps scales of
// GGUF's types in wider forms.
double WiderScaleBytes(const ModelConfig& config, const LocalShape& shape);

// What the backend of a rank on a GPU keeps in buffers of its own, for any model of this
// vocabulary.
double BackendBytes(const ModelConfig& config, const StepLimits& limits);

// RESOURCE_EXHAUSTED, with need, have and the flags that ask for less, where `available` bytes of
// `owner` ("machine", "GPU") do not hold `need` and `kv_bytes` of KV cache. `cache_by_flag`: a flag
// gave the size of the cache, or may.
absl::Status CheckMemory(const MemoryNeed& need, double kv_bytes, double available,
                         std::string_view owner, bool cache_by_flag = true);

// Blocks of KV that a rank on a GPU needs.
struct DeviceKvNeed {
  double block_bytes = 0;
  int32_t cache_blocks = 0;  // 0: the cache takes what is left, which has to be a block
  int32_t step_blocks = 0;   // of the largest step, which runs before there is a cache
};

// CheckMemory for one rank on a GPU of its own, of which a cache that takes what is left has
// `share`.
absl::Status CheckDeviceMemory(const MemoryNeed& need, const DeviceKvNeed& kv,
                               const kernels::DeviceMemorySize& device, double share);

}  // namespace baton
