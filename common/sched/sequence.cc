#include "common/sched/sequence.h"

namespace baton {

std::string_view SequenceStateName(SequenceState state) {
  switch (state) {
    case SequenceState::kQueued:
      return "queued";
    case SequenceState::kReserved:
      return "reserved";
    case SequenceState::kPrefilling:
      return "prefilling";
    case SequenceState::kDecoding:
      return "decoding";
    case SequenceState::kPreempted:
      return "preempted";
    case SequenceState::kDone:
      return "done";
    case SequenceState::kFailed:
      return "failed";
  }
  return "";
}

}  // namespace baton
