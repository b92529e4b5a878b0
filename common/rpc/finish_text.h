#pragma once

#include <string_view>

#include "baton/v1/inference.pb.h"

namespace baton {

// The reason as the EOS log spells it ("stop_eos"), and the cause as the label of metrics does
// ("eos"). Both are "" for what a client never sees.
std::string_view FinishReasonText(baton::v1::FinishReason reason);
std::string_view StopCauseText(baton::v1::StopCause cause);

}  // namespace baton
