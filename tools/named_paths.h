#pragma once

#include "absl/status/status.h"
#include "common/config/flag_set.h"

namespace baton {

// Whether files, models and folders that the settings name are there, each as what the command that
// has them takes it for: paths are looked at and nothing is opened. INVALID_ARGUMENT has a line for
// each that is not.
absl::Status CheckNamedPaths(const FlagSet& set);

}  // namespace baton
