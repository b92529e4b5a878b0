#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/engine/draft_proposer.h"
#include "common/engine/engine.h"
#include "common/formats/generation_config.h"
#include "common/model/load_model.h"
#include "common/model/model_options.h"
#include "common/worker/load_progress.h"
#include "kernels/dtype.h"

namespace baton {

// The draft model of a worker, ready to foretell for its engine.
struct DraftModel {
  std::unique_ptr<LoadedModel> loaded;
  std::unique_ptr<DraftProposer> proposer;  // runs on it
};

// Whether the model in `dir` can foretell for the model in `model_dir`, whose engine runs with
// `engine` and a KV cache of `kv_dtype`, if that is given, and whose EOS set is `eos_set`: the same
// ids have to mean the same texts, and the draft has to know all positions that there may be and to
// have heads that fit the cache's type. Needs no weights. An error names --draft-model, what was
// found and what was expected.
absl::Status CheckDraft(const std::string& dir, const std::string& model_dir,
                        const EngineOptions& engine, std::optional<kernels::DType> kv_dtype,
                        const std::vector<EosSetEntry>& eos_set);

// Loads it, on one rank of the host, as `like` has the model loaded for which it foretells, with a
// KV cache of `kv_tokens` tokens, and logs what it takes up.
absl::StatusOr<std::unique_ptr<DraftModel>> LoadDraft(const std::string& dir, ModelOptions like,
                                                      int64_t kv_tokens,
                                                      const EngineOptions& engine,
                                                      const base::Clock& clock,
                                                      LoadProgressLog* progress);

}  // namespace baton
