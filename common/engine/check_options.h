#pragma once

#include "absl/status/status.h"
#include "common/engine/engine.h"
#include "common/kv/kv_cache.h"

namespace baton {

// INVALID_ARGUMENT, with what was found and what was expected, for options with which no engine can
// run over `kv`.
absl::Status CheckEngineOptions(const EngineOptions& options, const KvCache& kv);

}  // namespace baton
