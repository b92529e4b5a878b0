#pragma once

#include <string>

#include "tools/eos/log_stats.h"

namespace baton {

// The statistics as a table for people.
std::string StatsText(const LogStats& stats);
// The same as one JSON object and a newline.
std::string StatsJson(const LogStats& stats);

}  // namespace baton
