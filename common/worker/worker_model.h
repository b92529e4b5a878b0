#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/eos_probe.h"
#include "common/config/options.h"
#include "common/engine/engine.h"
#include "common/formats/generation_config.h"
#include "common/model/load_model.h"
#include "common/text/tokenizer.h"
#include "common/worker/draft_model.h"
#include "common/worker/load_progress.h"
#include "common/worker/metrics_probe.h"
#include "kernels/machine_limits.h"

namespace baton {

// A loaded model together with what the rest of a worker needs to know about it.
struct WorkerModel {
  std::unique_ptr<LoadedModel> loaded;
  std::vector<EosSetEntry> eos_set;  // the EOS ids with their sources
  std::string text_fingerprint;
  std::map<TokenId, std::string> special_tokens;  // that are no EOS ids, with their texts
  std::shared_ptr<const Tokenizer> tokenizer;     // null where the directory has none
  EngineOptions engine;
  WorkModel work;
  std::string compute_dtype;
  std::string numerics;
  std::unique_ptr<DraftModel> draft;  // null without one; `engine` names it
  uint64_t probe_digest = 0;          // EosProbeDigest of what it computes; 0 without a probe
};

// What the steps of `model` cost, on all its ranks, and what its machines can do together.
// `measured` is what one of them can. Where that failed, as for want of memory, its figures are 0
// with a warning; only a device that has failed itself is an error.
absl::StatusOr<WorkModel> WorkModelOf(const LoadedModel& model,
                                      const absl::StatusOr<kernels::MachineLimits>& measured);

// Loads the model that the flags name, so that its engine can be started. What needs no weights
// comes first, so that its errors do not wait for them. Tells `progress` what goes on. Logs the EOS
// set with its sources, and what "auto" became. `predictors_probe`, which may be null, is computed
// where the flags name no probe and it fits the model.
absl::StatusOr<WorkerModel> LoadWorkerModel(const WorkerFlags& worker, const base::Clock& clock,
                                            const EosProbe* predictors_probe,
                                            LoadProgressLog* progress);

}  // namespace baton
