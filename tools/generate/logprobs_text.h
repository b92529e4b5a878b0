#pragma once

#include <string>

#include "tools/generate/generate_client.h"

namespace baton {

// The logprobs of an answer for a reader: a line for each token, with its logprob, its text in
// quotes, and the most likely tokens in its place, as far as they were asked for. "" without any.
std::string LogprobsText(const OutcomeAnswer& outcome);

}  // namespace baton
