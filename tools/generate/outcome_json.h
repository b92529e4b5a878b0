#pragma once

#include <string>

#include "absl/status/status.h"
#include "tools/generate/generate_client.h"

namespace baton {

// A line of `baton generate --json`, without the newline: the answer, or the error.
std::string OutcomeAsJson(const Outcome& outcome);

}  // namespace baton
