#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/options.h"
#include "common/engine/engine.h"
#include "common/formats/generation_config.h"
#include "common/model/load_model.h"
#include "common/worker/metrics_probe.h"

namespace baton {

// A loaded model with what the rest of a worker needs to know about it.
struct WorkerModel {
  std::unique_ptr<LoadedModel> loaded;
  std::vector<StopSetEntry> stop_set;  // the EOS ids with their sources
  EngineOptions engine;
  WorkModel work;
  std::string compute_dtype;
  std::string numerics;
};

// From the flags to a model whose engine can be started. Logs progress, the EOS set with its
// sources, and what "auto" became.
absl::StatusOr<WorkerModel> LoadWorkerModel(const WorkerFlags& worker, const base::Clock& clock);

}  // namespace baton
