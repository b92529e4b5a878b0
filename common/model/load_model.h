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
#include "common/model/load_ranks.h"
#include "common/model/model_options.h"
#include "common/model/model_runner.h"
#include "common/model/transformer.h"
#include "common/model/weights.h"
#include "kernels/backend.h"
#include "kernels/backend_factory.h"
#include "kernels/collective.h"

namespace baton {

// A model that is ready to run. The runner may be moved out, but it borrows the backend and the KV
// memory, so the model must outlive it.
struct LoadedModel {
  ModelConfig config;
  GenerationConfig generation;
  std::string fingerprint;
  size_t weight_bytes = 0;  // packed, of all ranks
  size_t mapped_bytes = 0;  // of the files that they lie in, which other processes may share
  LoadTimes times;
  std::vector<std::unique_ptr<kernels::Collective>> group;  // one per rank; none for a single one
  std::unique_ptr<kernels::Backend> backend;                // of rank 0
  std::unique_ptr<KvArena> arena;                           // of rank 0
  std::unique_ptr<KvArena> swap_arena;                      // of rank 0; null without swap space
  SwapTimes swap_times;                                     // of a block of all ranks
  std::vector<ModelRank> peers;                             // ranks 1, 2, …
  std::unique_ptr<ModelRunner> runner;                      // of all ranks
  Transformer* transformer = nullptr;                       // of rank 0, a part of `runner`

  int32_t ranks() const { return 1 + static_cast<int32_t>(peers.size()); }
  int threads() const;  // of all ranks
  // Whether projections are integers of 4 or 8 bits.
  bool has_integers() const;
  // What must be equal for two workers to give the same bits: that of the backend, and how the
  // weights are stored where they are quantized.
  std::string numerics() const;
  // The cache of rank 0. The other ranks have the same layout and as many blocks.
  const kernels::PagedKv& kv() const { return arena->kv(); }
  KvCache kv_cache() const;
  // Of the swap space, on every rank.
  int32_t swap_blocks() const { return swap_arena ? swap_arena->kv().num_blocks : 0; }
};

// Does everything that stands between a directory and the first step: checks the files, makes the
// backend, packs the weights, and allocates and touches the KV arena. `progress` and `phases` may
// be null.
absl::StatusOr<std::unique_ptr<LoadedModel>> LoadModel(
    const std::string& model_dir, const ModelOptions& options, const LoadProgress& progress,
    const base::Clock& clock = base::SteadyClock(), const LoadPhases& phases = nullptr);

}  // namespace baton
