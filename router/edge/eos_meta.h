#pragma once

#include <string>

#include "nlohmann/json_fwd.hpp"
#include "router/edge/served_model.h"
#include "router/router_options.h"

namespace baton {

// The settings of sampling, as FILE.meta.json and the summary of a request show them; without the
// seed.
nlohmann::ordered_json SamplingJson(const SamplingParams& params);

// Makes the content of FILE.meta.json, which holds what is true for every row of the EOS log.
// `sample` is the share of requests that are logged, `unix_time` the present.
std::string EosMetaJson(const ServedModel& model, const RouterOptions& options, double sample,
                        double unix_time);

}  // namespace baton
