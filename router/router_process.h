#pragma once

#include "common/config/options.h"

namespace baton {

// Serves until a signal asks for the end, drains, and returns the exit code of the process.
int RunRouter(const RouterFlags& flags);

}  // namespace baton
