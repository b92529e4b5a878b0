#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/formats/generation_config.h"
#include "common/formats/model_config.h"
#include "common/kv/kv_cache.h"
#include "common/model/kv_arena.h"
#include "common/model/model_runner.h"
#include "common/model/transformer.h"
#include "common/model/weights.h"
#include "kernels/backend.h"
#include "kernels/backend_factory.h"
#include "kernels/collective.h"

namespace baton {

// How a worker serves a model directory; the flags of the same names.
struct ModelOptions {
  std::string dtype = "auto";     // auto | float32 | bfloat16 | float16
  std::string kv_dtype = "auto";  // auto | float32 | bfloat16 | float16
  std::string device = "cpu";     // cpu | cuda | reference
  std::string isa = "auto";
  int threads = 0;                   // of all ranks together; 0 = all cores of this process
  int32_t tensor_parallel_size = 1;  // ranks
  int32_t block_size = 16;
  KvBudget kv;
  StepLimits limits{.max_tokens = 2048, .max_samples = 64};
};

// Where the time of a load went.
struct LoadTimes {
  base::Duration checkpoint{};  // files opened and checked, fingerprint
  base::Duration weights{};     // read and packed
  base::Duration kv_cache{};    // allocated and touched
  base::Duration kernels{};     // buffers and kernels made for every size of step
};

// What a rank computes with.
struct ModelRank {
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<KvArena> arena;
};

// A model that is ready to run. The runner may be moved out; it borrows backend and KV memory, so
// the model outlives it.
struct LoadedModel {
  ModelConfig config;
  GenerationConfig generation;
  std::string fingerprint;
  size_t weight_bytes = 0;  // packed, of all ranks
  LoadTimes times;
  std::vector<std::unique_ptr<kernels::Collective>> group;  // one per rank; none for a single one
  std::unique_ptr<kernels::Backend> backend;                // of rank 0
  std::unique_ptr<KvArena> arena;                           // of rank 0
  std::vector<ModelRank> peers;                             // ranks 1, 2, …
  std::unique_ptr<ModelRunner> runner;                      // of all ranks
  Transformer* transformer = nullptr;                       // of rank 0, a part of `runner`

  int32_t ranks() const { return 1 + static_cast<int32_t>(peers.size()); }
  int threads() const;  // of all ranks
  // Of rank 0: the others have the same layout and as many blocks.
  const kernels::PagedKv& kv() const { return arena->kv(); }
  KvCache kv_cache() const;
};

// The dtype of arithmetic for `dtype`: "auto" is float32 for a checkpoint of float32, else
// bfloat16. INVALID_ARGUMENT for a name that is none.
absl::StatusOr<kernels::DType> ResolveComputeDType(const std::string& dtype,
                                                   const ModelConfig& config,
                                                   const CheckpointFiles& files);
// The dtype of the KV cache: "auto" is the compute dtype.
absl::StatusOr<kernels::DType> ResolveKvDType(const std::string& dtype, kernels::DType compute);

// Everything from a directory to the first step: checks the files, makes the backend, packs the
// weights, and allocates and touches the KV arena. `progress` may be null.
absl::StatusOr<std::unique_ptr<LoadedModel>> LoadModel(
    const std::string& model_dir, const ModelOptions& options, const LoadProgress& progress,
    const base::Clock& clock = base::SteadyClock());

}  // namespace baton
