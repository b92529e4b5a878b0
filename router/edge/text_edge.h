#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "router/edge/request_spec.h"
#include "router/edge/served_model.h"

namespace baton {

// Turns what a request gave into token ids: a conversation is rendered with the model's template
// first, ids stand as they are. `special_tokens` as in RequestSpec.
// Takes milliseconds: call it on a pool. INVALID_ARGUMENT with INVALID_TEXT.
absl::StatusOr<std::vector<TokenId>> TokenizeInput(const RequestInput& input,
                                                   const ServedModel& model,
                                                   std::optional<bool> special_tokens,
                                                   double unix_time);

// The bytes of text or ids that an input has.
size_t InputBytes(const RequestInput& input);

}  // namespace baton
