#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/formats/model_config.h"
#include "common/formats/safetensors.h"
#include "common/model/load_cache.h"
#include "common/model/weights.h"
#include "kernels/backend.h"

namespace baton {

// What one rank's weights are made of. `progress` may be null.
struct WeightJob {
  const ModelConfig& config;
  const LocalShape& shape;
  const CheckpointFiles& files;
  kernels::Backend& backend;
  const LoadProgress& progress;
};

// The name and the identity of a rank's file of packed weights, which names the NUMA node on whose
// processors it is read, where there are several. The identity does not tell copies of a checkpoint
// apart, which differ in the times of their files: whether another one packs to the same is tried.
struct PackedKey {
  std::string name;
  std::string identity;
  std::string copy;  // of the checkpoint

  static PackedKey Of(const LoadCacheKey& key, const std::string& layout, std::optional<int> node);
};

// How many bytes the file of a rank's packed weights takes at most, so that a disk without room for
// them is known before anything is packed.
int64_t MostPackedBytes(const WeightJob& job);

// Maps the packed weights of a rank, which all processes of this user share that load the same, and
// writes their file first where there is none that can be believed. A copy of the checkpoint that
// the file was not made of is packed once and compared with it. Of several that find no file, one
// writes and the others wait for it. Empty, with a line in the log, where there can be no file or
// the wait or the writing took too long: the caller then packs weights of its own. Errors are those
// of the checkpoint. For backends that have packed_images().
absl::StatusOr<std::optional<ModelWeights>> LoadSharedWeights(const WeightJob& job,
                                                              const LoadCachePlace& place);

}  // namespace baton
