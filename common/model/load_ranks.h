#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/formats/model_config.h"
#include "common/formats/safetensors.h"
#include "common/model/kv_arena.h"
#include "common/model/model_options.h"
#include "common/model/transformer_runner.h"
#include "common/model/weights.h"
#include "kernels/backend.h"
#include "kernels/backend_factory.h"
#include "kernels/collective.h"

namespace baton {

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

// What all ranks are loaded from.
struct RankSource {
  const ModelConfig& config;
  const CheckpointFiles& files;
  const ModelOptions& options;
  const base::Clock& clock;
  kernels::DType dtype = kernels::DType::kF32;
  kernels::DType kv_dtype = kernels::DType::kF32;
  std::string fingerprint;  // where a load cache needs it
  int32_t num_blocks = 0;
  // The cache of a device with its own memory gets what is left when everything else is there.
  bool kv_takes_rest = false;
};

struct LoadedRank {
  ModelRank rank;
  std::unique_ptr<TransformerRunner> runner;
  size_t weight_bytes = 0;
  LoadTimes times;  // but for the checkpoint
};

// Loads all ranks side by side, each on a thread of its own, rank 0 on the caller's. `group` has an
// end for each, or is empty for a single one; an error of a rank ends it. No rank waits
// for another one's weights inside a device, and all get as many KV blocks as the one with the
// least memory holds.
absl::StatusOr<std::vector<LoadedRank>> LoadRanks(
    const RankSource& source, std::span<const std::unique_ptr<kernels::Collective>> group,
    const LoadProgress& progress);

}  // namespace baton
