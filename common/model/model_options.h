#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/formats/model_config.h"
#include "common/formats/safetensors.h"
#include "common/model/activations.h"
#include "common/model/kv_arena.h"
#include "kernels/backend_factory.h"
#include "kernels/dtype.h"

namespace baton {

// How a worker serves a model directory; the flags of the same names.
struct ModelOptions {
  std::string dtype = "auto";     // auto | float32 | bfloat16 | float16
  std::string kv_dtype = "auto";  // auto | float32 | bfloat16 | float16
  std::string device = "cpu";     // cpu | cuda | reference
  std::string isa = "auto";
  int threads = 0;                    // of all ranks together; 0 = all cores of this process
  int32_t tensor_parallel_size = 1;   // ranks
  std::string nccl_library;           // of ranks on GPUs; "" = the loader's own
  std::string quantization = "none";  // none | fp8; of projections on a GPU that multiplies it
  std::string load_cache;             // directory of packed checkpoints; "" = none is kept
  int32_t block_size = 16;
  KvBudget kv;
  StepLimits limits{.max_tokens = 2048, .max_samples = 64};

  // INVALID_ARGUMENT, naming the flag, for sizes outside their bounds.
  absl::Status Check() const;
};

// The dtype of arithmetic for `dtype`: "auto" is float32 for a checkpoint of float32, else
// bfloat16. INVALID_ARGUMENT for a name that is none.
absl::StatusOr<kernels::DType> ResolveComputeDType(const std::string& dtype,
                                                   const ModelConfig& config,
                                                   const CheckpointFiles& files);
// The dtype of the KV cache: "auto" is the compute dtype.
absl::StatusOr<kernels::DType> ResolveKvDType(const std::string& dtype, kernels::DType compute);
absl::StatusOr<kernels::Quantization> ResolveQuantization(const std::string& name);

// Makes the directory of --load-cache. One that cannot be made is a mistake in the flag; one that
// cannot be written costs a cache only.
absl::Status MakeCacheDir(const std::string& dir);

}  // namespace baton
