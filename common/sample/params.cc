#include "common/sample/params.h"

namespace baton {

std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "";
    case FinishReason::kStopEos:
      return "stop_eos";
    case FinishReason::kStopToken:
      return "stop_token";
    case FinishReason::kStopString:
      return "stop_string";
    case FinishReason::kStopGrammar:
      return "stop_grammar";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kRunaway:
      return "runaway";
    case FinishReason::kAborted:
      return "aborted";
    case FinishReason::kDeadline:
      return "deadline";
    case FinishReason::kError:
      return "error";
  }
  return "";
}

std::string_view EosPolicyName(EosPolicy policy) {
  switch (policy) {
    case EosPolicy::kHonor:
      return "honor";
    case EosPolicy::kIgnoreContinue:
      return "continue";
    case EosPolicy::kIgnoreMask:
      return "mask";
  }
  return "";
}

}  // namespace baton
