#pragma once

#include <string>

#include "router/edge/served_model.h"
#include "router/router_options.h"

namespace baton {

// Makes the content of FILE.meta.json, which holds what is true for every row of the EOS log.
// `unix_time` is the present.
std::string EosMetaJson(const ServedModel& model, const RouterOptions& options, double unix_time);

}  // namespace baton
