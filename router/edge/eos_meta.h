#pragma once

#include <string>

#include "router/edge/served_model.h"
#include "router/router_options.h"

namespace baton {

// The content of FILE.meta.json: what holds for every row of the EOS log. `unix_time`: now.
std::string EosMetaJson(const ServedModel& model, const RouterOptions& options, double unix_time);

}  // namespace baton
