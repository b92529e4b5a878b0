#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/inference.pb.h"
#include "router/edge/request_spec.h"
#include "router/edge/served_model.h"
#include "router/router_options.h"

namespace baton {

// Refuses everything that can be refused without tokenizing, with the reasons of the public API.
// Sizes and counts are those that ParseRequest let pass. `seed` is used when the request has none;
// the request id stays empty when the request has none.
absl::StatusOr<RequestSpec> ValidateSpec(const v1::GenerationSpec& spec, RequestInput input,
                                         const ServedModel& model, const RouterOptions& options,
                                         uint64_t seed);

// Refuses as TOO_LONG what cannot fit: more ids than that, or a text whatever its tokens are, so
// that nobody makes the pool tokenize megabytes in vain.
absl::Status CheckTextSize(const RequestInput& input, const LengthLimits& limits,
                           const ServedModel& model);

// Refuses a DetokenizeRequest of `bytes` as TOO_LONG that has too many ids however they are
// written, before it is read: ids grow to several times the size of their message.
absl::Status CheckIdsMessage(size_t bytes, const LengthLimits& limits);

// Checks the rest, once `spec->prompt` is known: EMPTY_PROMPT, TOO_LONG. An absent max_tokens
// becomes the model's max_new_tokens, the output limit, or as many as fit into the healthy workers,
// whichever is least; it stays 0 only while no worker was seen.
absl::Status FitLengths(const LengthLimits& limits, const ServedModel& model, RequestSpec* spec);

// Refuses a name that is neither empty nor that of the served model: NOT_FOUND, MODEL_NOT_FOUND.
absl::Status CheckModelName(const std::string& name, const ServedModel& model);

}  // namespace baton
