#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "router/edge/request_spec.h"
#include "router/edge/served_model.h"

namespace baton {

// Turns what a request gave into token ids: text is encoded with the tokenizer's special tokens, a
// conversation is rendered with the model's template and encoded without, ids stand as they are.
// Takes milliseconds: call it on a pool. INVALID_ARGUMENT with INVALID_TEXT.
absl::StatusOr<std::vector<TokenId>> TokenizeInput(const RequestInput& input,
                                                   const ServedModel& model, double unix_time);

// The bytes of text or ids that an input has.
size_t InputBytes(const RequestInput& input);

}  // namespace baton
