#pragma once

#include <cstdint>
#include <functional>
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
#include "common/model/swap_space.h"
#include "common/model/transformer_runner.h"
#include "common/model/weights.h"
#include "kernels/backend.h"
#include "kernels/backend_factory.h"
#include "kernels/collective.h"

namespace baton {

// How long the parts of a load took.
struct LoadTimes {
  base::Duration checkpoint{};  // opening and checking files, and the fingerprint
  base::Duration weights{};     // reading and packing
  base::Duration kv_cache{};    // allocating and touching
  base::Duration kernels{};     // making buffers and kernels for every size of step
};

// Is told of each part of a load, in words, when it begins; by the thread that loads.
using LoadPhases = std::function<void(const std::string& phase)>;

// What one rank computes with.
struct ModelRank {
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<KvArena> arena;
  std::unique_ptr<KvArena> swap_arena;  // null without swap space
};

// What all ranks are loaded from.
struct RankSource {
  const ModelConfig& config;
  const CheckpointFiles& files;
  const ModelOptions& options;
  const base::Clock& clock;
  kernels::DType dtype = kernels::DType::kF32;
  kernels::DType kv_dtype = kernels::DType::kF32;
  std::string fingerprint;  // only for a load cache
  int32_t num_blocks = 0;   // of the KV cache, unless kv_takes_rest
  int32_t swap_blocks = 0;  // of the swap space
  // Whether the KV cache of a device with its own memory gets what is left of that.
  bool kv_takes_rest = false;
};

// What LoadRanks makes of one rank.
struct LoadedRank {
  ModelRank rank;
  std::unique_ptr<TransformerRunner> runner;
  size_t weight_bytes = 0;
  size_t mapped_bytes = 0;  // of those in a file that other processes may share
  LoadTimes times;          // all but `checkpoint`
  SwapTimes swap_times;
};

// Loads all ranks side by side, rank 0 on the caller's thread and each other one on a thread of its
// own. `group` has an end for each rank, or is empty for a single one; an error of a rank ends the
// group. No rank waits for another one's weights inside a device. All get as many KV blocks as the
// rank with the least memory can hold.
absl::StatusOr<std::vector<LoadedRank>> LoadRanks(
    const RankSource& source, std::span<const std::unique_ptr<kernels::Collective>> group,
    const LoadProgress& progress, const LoadPhases& phases);

}  // namespace baton
