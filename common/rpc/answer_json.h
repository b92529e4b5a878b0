#pragma once

#include "baton/v1/inference.pb.h"
#include "nlohmann/json_fwd.hpp"

namespace baton {

// Parts of an answer as JSON, in the one spelling of `generate --json` and of the HTTP API.

// {"queue", "prefill", "kv_transfer", "ttft", "total"}, in milliseconds.
nlohmann::ordered_json TimingsJson(const v1::Timings& timings);
// How tokens were drawn: the numbers of SamplingParams, by their names. What a server of an earlier
// version does not tell is left out.
nlohmann::ordered_json SamplingNumbersJson(const v1::SamplingParams& sampling);
// The id or the string that ended it, or null.
nlohmann::ordered_json StopMatchJson(const v1::Final& final);
// {"prefill", "decode"}: addresses, null for a worker that there was not.
nlohmann::ordered_json WorkersJson(const v1::Final& final);
// The keys of the EOS log for what a row says of the distribution, and "probe" where there is one.
nlohmann::ordered_json EosStepJson(const v1::EosStep& step);
// {"at_step", "expected_remaining", "p50", "p90", "within": {"1": p, …}}.
nlohmann::ordered_json EndPredictionJson(const v1::EndPrediction& prediction);

}  // namespace baton
