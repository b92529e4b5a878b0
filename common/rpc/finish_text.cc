#include "common/rpc/finish_text.h"

namespace baton {

std::string_view FinishReasonText(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP_EOS:
      return "stop_eos";
    case v1::FINISH_REASON_STOP_TOKEN:
      return "stop_token";
    case v1::FINISH_REASON_STOP_STRING:
      return "stop_string";
    case v1::FINISH_REASON_STOP_GRAMMAR:
      return "stop_grammar";
    case v1::FINISH_REASON_LENGTH:
      return "length";
    case v1::FINISH_REASON_RUNAWAY:
      return "runaway";
    default:
      return "";
  }
}

std::string_view StopCauseText(v1::StopCause cause) {
  switch (cause) {
    case v1::STOP_CAUSE_NONE:
      return "none";
    case v1::STOP_CAUSE_EOS:
      return "eos";
    case v1::STOP_CAUSE_TOKEN:
      return "token";
    case v1::STOP_CAUSE_STRING:
      return "string";
    case v1::STOP_CAUSE_GRAMMAR:
      return "grammar";
    case v1::STOP_CAUSE_RUNAWAY:
      return "runaway";
    default:
      return "";
  }
}

}  // namespace baton
