#pragma once

#include <string_view>

#include "baton/v1/inference.pb.h"

namespace baton {

// As in the EOS log: "stop_eos"; as the metric label: "eos". "" for what a client never sees.
std::string_view FinishReasonText(baton::v1::FinishReason reason);
std::string_view StopCauseText(baton::v1::StopCause cause);

}  // namespace baton
