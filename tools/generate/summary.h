#pragma once

#include <string>

#include "tools/generate/generate_client.h"

namespace baton {

// What a terminal shows after an answer: times, rate, how it ended, and the curve of the EOS
// probability when the steps were asked for. Ends with a newline.
std::string SummaryOf(const Outcome& outcome);
// Likewise of one of several answers, with its index and seed.
std::string SummaryOf(const OutcomeAnswer& answer);

// Why a request failed, in the form "TOO_LONG (INVALID_ARGUMENT): the prompt has …".
std::string ErrorText(const absl::Status& status);

}  // namespace baton
