#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/eos_probe.h"
#include "common/formats/model_config.h"
#include "common/formats/safetensors.h"
#include "common/model/activations.h"
#include "common/model/kv_arena.h"
#include "kernels/backend_factory.h"
#include "kernels/device.h"
#include "kernels/dtype.h"

namespace baton {

// How a worker loads and runs the model of a directory; its flags have the same names.
struct ModelOptions {
  std::optional<kernels::DType> dtype;     // of arithmetic; empty: see ResolveComputeDType
  std::optional<kernels::DType> kv_dtype;  // of the KV cache; empty: that of arithmetic
  kernels::Device device = kernels::Device::kCpu;
  std::string isa = "auto";          // of the CPU: auto, amx, avx512_bf16, avx512 or avx2
  int threads = 0;                   // of all ranks together; 0 = one per physical core
  int32_t tensor_parallel_size = 1;  // ranks
  std::string nccl_library;          // of ranks on GPUs; "" = the loader's own
  kernels::Quantization quantization = kernels::Quantization::kNone;
  std::string load_cache;     // directory of packed checkpoints; "" = none is kept
  int32_t max_model_len = 0;  // the longest sequence, in tokens; 0 = as long as the model knows
  int32_t block_size = 16;
  KvBudget kv;
  int64_t swap_bytes = 0;  // of the host's memory, for KV blocks of all ranks; 0 = none
  StepLimits limits{.max_tokens = 2048, .max_samples = 64};
  std::optional<EosProbe> probe;  // computed for every row that draws

  // INVALID_ARGUMENT, naming the flag, for sizes outside their bounds.
  absl::Status Check() const;
};

// The most tokens of a sequence, where `max_model_len` is 0 or a bound beside the model's own.
int32_t LongestContext(int32_t max_model_len, const ModelConfig& config);

// The dtype of arithmetic: `dtype` if it is given, else float32 for a checkpoint of float32 and
// bfloat16 for any other.
kernels::DType ResolveComputeDType(std::optional<kernels::DType> dtype, const ModelConfig& config,
                                   const CheckpointFiles& files);
// The same without a load. Of a `model` whose weights are missing or cannot be opened, what
// config.json says holds.
kernels::DType ResolveComputeDType(std::optional<kernels::DType> dtype, const ModelConfig& config,
                                   const std::string& model);
// Whether the model's heads fit a KV cache of that dtype: for int8 and fp8 they are a multiple of
// KvLayout::kQuantizedDims long.
bool HeadsFit(const ModelConfig& config, kernels::DType kv_dtype);
// The dtype of the KV cache: `dtype` if it is given, else the compute dtype. INVALID_ARGUMENT for
// float16 where arithmetic is in another; for int8 on a GPU; for int8 and fp8 where the model's
// heads do not fit them; for fp8 where the checkpoint has other scales than such a cache.
absl::StatusOr<kernels::DType> ResolveKvDType(std::optional<kernels::DType> dtype,
                                              kernels::DType compute, const ModelConfig& config,
                                              kernels::Device device);
// INVALID_ARGUMENT where weights that are quantized already were to be quantized while loading.
absl::Status CheckQuantizedOnce(const ModelConfig& config, kernels::Quantization quantization);

// Makes the directory of --load-cache. INVALID_ARGUMENT for one that cannot be made, which is a
// mistake in the flag; a directory that cannot be written only costs the cache.
absl::Status MakeCacheDir(const std::string& dir);

}  // namespace baton
