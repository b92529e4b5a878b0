#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/base/clock.h"

namespace baton::bench {

// What a run does with EOS. With kMask and kContinue the lengths of answers are forced.
enum class EosMode { kHonor, kMask, kContinue };

// One request, complete before the run starts, so that nothing is computed while load is made.
struct PlannedRequest {
  int64_t index = 0;
  // Scheduled arrival since the start of the run. Zero in a closed loop, where a request is sent
  // as soon as another has ended.
  base::Duration at{};
  // Token ids are sent verbatim; text where the protocol or the user's file has no ids.
  std::variant<std::vector<int32_t>, std::string> prompt;
  // What the server is expected to count; -1 when only the server knows (text of a user's file).
  int32_t prompt_tokens = -1;
  int32_t max_tokens = 1;
  // Of sampling, whose temperature then counts and not that of the run; "" = none.
  std::string preset;
};

// Requests in order of arrival.
struct RequestPlan {
  std::vector<PlannedRequest> requests;
  EosMode eos = EosMode::kHonor;
};

}  // namespace baton::bench
