#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "baton/v1/inference.pb.h"
#include "tools/generate/generate_client.h"

namespace baton {

// A line of `baton generate --json`, without the newline: the answer, or the error.
std::string OutcomeAsJson(const Outcome& outcome);

// As in the EOS log: "stop_eos"; as the metric label: "eos". "" for what a client never sees.
std::string_view FinishReasonText(baton::v1::FinishReason reason);
std::string_view StopCauseText(baton::v1::StopCause cause);

}  // namespace baton
