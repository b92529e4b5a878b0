#pragma once

#include "nlohmann/json.hpp"
#include "tools/bench/report/result_json.h"

namespace baton::bench {

// The top level of result.json: every run, ramp and drain included, pooled under the names that
// `vllm bench serve --save-result` writes. Lists hold one entry per request that was not cancelled,
// in the order of sending; a failed one has its error, no times and a length of 0.
nlohmann::ordered_json VllmResult(const BenchResult& result);

}  // namespace baton::bench
