#pragma once

#include "absl/status/statusor.h"
#include "common/http/http_message.h"
#include "router/edge/caller.h"

namespace baton {

// Who sends a request over HTTP, by the same rules as over gRPC.
absl::StatusOr<Caller> CallerOf(const HttpRequest& request, const CallerRules& rules);

}  // namespace baton
