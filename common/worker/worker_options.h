#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/eos_probe.h"
#include "common/config/options.h"
#include "common/engine/engine.h"
#include "common/model/load_model.h"
#include "common/roles/role_view.h"
#include "common/text/eos_set.h"

namespace baton {

// What a worker's flags ask of its model and of its engine.

// The flags without what a worker of this role has no use for. Prefill workers know nothing of
// ends, so there is nothing to choose by and no line to choose from; and they draw one token of an
// answer, behind which nothing is foretold.
WorkerFlags FlagsOfRole(WorkerFlags flags, WorkerRole role);

// What foretells tokens: "ngram", "draft" or "none".
std::string SpeculationOf(const WorkerFlags& worker);

// Of the model, or of a draft beside it, which has no swap space: that is left to the caller.
ModelOptions ModelOptionsOf(const WorkerFlags& worker, std::optional<EosProbe> probe);

// Without what only the loaded model and its tokenizer tell.
EngineOptions EngineOptionsOf(const WorkerFlags& worker, const ModelConfig& config,
                              const std::vector<EosSetEntry>& eos_set);

}  // namespace baton
