#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "baton/v1/inference.pb.h"
#include "router/edge/request_spec.h"
#include "router/router_options.h"

namespace baton {

// Notes in `checked` how many answers `spec` wants drawn and how many of them given. Refuses n
// below 1 (INVALID_SAMPLING), more than the table of limits or the queue allows (LIMIT_EXCEEDED),
// best_of below n, and predictions of answers that are ranked first (CONFLICTING_OPTIONS).
absl::Status TakeAnswers(const v1::GenerationSpec& spec, const RouterOptions& options,
                         RequestSpec* checked);

// Refuses (LIMIT_EXCEEDED) more answers than could ever wait here at once: than the queue takes of
// the spec's tenant, or than one client may hold of --max-inflight-bytes when each holds a message
// of that size.
absl::Status CheckRoomForAnswers(const RequestSpec& spec, size_t message_bytes,
                                 const RouterOptions& options);

}  // namespace baton
