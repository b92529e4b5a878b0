#pragma once

#include <string>

#include "absl/status/status.h"
#include "tools/generate/generate_client.h"

namespace baton {

// The line that `baton generate --json` prints of a request, without the newline: its answer or its
// error.
std::string OutcomeAsJson(const Outcome& outcome);

}  // namespace baton
